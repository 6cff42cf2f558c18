"""The OpenAPI document of the admin API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge import __version__
from bridge.console import json_schema as js
from bridge.console.resources import JSON, RESOURCES, Parameter, Resource

PREFIX = "/api/v1/"


def document(resources: Sequence[Resource] = RESOURCES) -> dict[str, Any]:
    """OpenAPI 3.1 for all resources, with errors in their one form."""
    paths: dict[str, dict[str, Any]] = {}
    for resource in resources:
        paths.setdefault(PREFIX + resource.path, {})[resource.method.lower()] = _operation(resource)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Triton Bridge admin API", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": {"Error": js.envelope(error=js.TEXT, code=js.TEXT)},
            "responses": {"Error": {"description": "One sentence that says why not.", "content": _content(_ERROR)}},
            "parameters": {"Reason": _REASON, "RequestId": _REQUEST_ID},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


_ABOUT = "Reads and changes a bridge. Models and labels are query parameters, since their names may hold any character."
_ERROR: js.Schema = {"$ref": "#/components/schemas/Error"}
_REASON = {"name": "x-audit-reason", "in": "header", "schema": js.TEXT, "description": "why, for the history"}
_REQUEST_ID = {
    "name": "x-request-id",
    "in": "header",
    "schema": js.TEXT,
    "description": "carried to the history, and answered",
}


def _operation(resource: Resource) -> dict[str, Any]:
    names = ["RequestId", *(["Reason"] if resource.changes else [])]
    operation: dict[str, Any] = {
        "operationId": f"{resource.method.lower()}_{resource.path.replace('/', '_').replace('.', '_')}",
        "summary": resource.says,
        "parameters": [
            *(_parameter(parameter) for parameter in resource.parameters),
            *({"$ref": f"#/components/parameters/{name}"} for name in names),
        ],
        "responses": {
            "200": {"description": "Done.", "content": _content(resource.answer, resource.media)},
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if resource.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(resource.body)}
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "schema": parameter.schema,
        "description": parameter.says,
    }


def _content(schema: js.Schema, media: str = JSON) -> dict[str, Any]:
    return {media: {"schema": schema}}
