"""The OpenAPI document is valid, describes every route and nothing else, and answers are what it says."""

from __future__ import annotations

from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from bridge.console import openapi
from bridge.registry.live import Move, ServedVersion
from bridge.registry.records import ModelInfo, SetVModel
from tests.console.admin_server import TEST, AdminServer


@pytest.fixture
def described(server: AdminServer) -> dict[str, Any]:
    document: dict[str, Any] = server.ask("GET", "/api/v1/openapi.json").json
    return document


def test_the_document_is_valid(described: dict[str, Any]) -> None:
    validate(described)
    assert described == openapi.document()


def test_every_route_is_described_and_nothing_else(server: AdminServer, described: dict[str, Any]) -> None:
    """Describe a new route in bridge/console/resources.py."""
    routes = {
        (method.lower(), route.path)
        for route in server.app.routes
        if isinstance(route, Route) and route.path.startswith(openapi.PREFIX)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert {(method, path) for path, methods in described["paths"].items() for method in methods} == routes


class NoCopies:
    def copies(self, model_id: str) -> int:
        return 0

    def loaded(self, model_id: str) -> int:
        return 0


@pytest.fixture
def told(server: AdminServer) -> AdminServer:
    server.add_model("half", 1, 2)
    server.registry.set_label("half", "stable", 2, TEST)
    server.registry.record_moves([Move("model:half", ServedVersion("half", 2, (2, 1)))], TEST)
    server.registry.upsert_instance("embedded", "127.0.0.1:1", "127.0.0.1:2", "process 7", actor=TEST)
    server.registry.set_vmodel(SetVModel("v", "a", ModelInfo("tensorflow", "/a")), NoCopies(), TEST)
    return server


LISTS = ("models", "versions", "labels", "instances", "events", "registered_models", "vmodels", "history")
QUESTIONS: list[tuple[str, str, dict[str, str], Any]] = [
    *(
        ("GET", resource, {}, None)
        for resource in (
            "models",
            "versions",
            "labels",
            "instances",
            "events",
            "registered_models",
            "vmodels",
            "history",
        )
    ),
    ("GET", "history/at", {"time": "#7"}, None),
    ("GET", "history/diff", {"from": "2000-01-01", "to": "2000-01-01"}, None),
    ("GET", "history/live", {"subject": "half"}, None),
    ("GET", "export/anchor", {}, None),
    ("PUT", "label", {"model": "half", "label": "stable"}, {"version": 1}),
    ("DELETE", "label", {"model": "half", "label": "stable"}, None),
    ("PUT", "policy", {"model": "half"}, {"all": {}}),
    ("PUT", "vmodel", {"id": "v"}, {"target": "a"}),
    ("DELETE", "vmodel", {"id": "v"}, None),
    ("GET", "nothing", {}, None),
]


@pytest.mark.parametrize(
    ("method", "resource", "query", "body"), QUESTIONS, ids=[f"{item[0]} {item[1]}" for item in QUESTIONS]
)
def test_answers_are_what_the_document_says(
    told: AdminServer, described: dict[str, Any], method: str, resource: str, query: dict[str, str], body: Any
) -> None:
    reply = told.ask(method, openapi.PREFIX + resource, query, body)
    if reply.status == 200:
        operation = described["paths"][openapi.PREFIX + resource][method.lower()]
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        if body is not None:
            sent = operation["requestBody"]["content"]["application/json"]["schema"]
            OAS31Validator(sent).validate(body)
    else:
        schema = described["components"]["schemas"]["Error"]
    OAS31Validator(schema).validate(reply.json)
    assert (reply.status == 200) == (resource not in ("nothing", "history/diff"))
