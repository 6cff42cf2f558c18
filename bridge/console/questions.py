"""What a request to the admin API carries, checked: query parameters, body, who asks and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.requests import Request

from bridge.access import actors, http_gate
from bridge.access.denial import REASON, REQUEST_ID
from bridge.access.gates import ADMIN
from bridge.errors import InvalidArgument
from bridge.registry.records import Actor

BODY_LIMIT = 1024 * 1024
"""Bytes."""

FORM = "application/x-www-form-urlencoded"


def parameters(request: Request, *known: str) -> dict[str, str]:
    """The query parameters by name. Raises InvalidArgument for one that is not in `known` or comes twice.

    A misspelt filter would otherwise select everything.
    """
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            allowed = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InvalidArgument(f"{request.url.path} has no query parameter '{name}'; {allowed}")
        if name in found:
            raise InvalidArgument(f"the query parameter {name} is given twice")
        found[name] = value
    return found


def required(request: Request, *names: str) -> list[str]:
    """The values of query parameters that all have to be there. Raises InvalidArgument."""
    found = parameters(request, *names)
    need(found, *names)
    return [found[name] for name in names]


def need(found: Mapping[str, str], *names: str) -> None:
    """Raises InvalidArgument for a parameter that is missing or empty."""
    for name in names:
        if not found.get(name):
            raise InvalidArgument(f"the query parameter {name} is missing")


def number(text: str, name: str, lowest: int, highest: int) -> int:
    """A decimal number in a range. Raises InvalidArgument."""
    try:
        value = int(text)
    except ValueError as error:
        raise InvalidArgument(f"{name}={text} is not a number") from error
    if not lowest <= value <= highest:
        raise InvalidArgument(f"{name}={text} is not between {lowest} and {highest}")
    return value


async def body(request: Request) -> dict[str, Any]:
    """The body, a JSON object. Raises InvalidArgument."""
    try:
        value = orjson.loads(await _content(request))
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidArgument("the body is not a JSON object")
    return value


async def form(request: Request, *known: str) -> dict[str, str]:
    """The fields of a form, which has no others than these; empty where one is missing. Raises InvalidArgument."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise InvalidArgument(f"the body is not a form: {kind or 'it has no content type'}")
    try:
        fields = parse_qsl((await _content(request)).decode(), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise InvalidArgument("the form is not UTF-8") from error
    found = dict(fields)
    if len(found) != len(fields) or not found.keys() <= set(known):
        raise InvalidArgument(f"the form has to have the fields {', '.join(known)}, each once")
    return {name: found.get(name, "") for name in known}


def actor(request: Request, reason: str = "") -> Actor:
    """Who asks, with the request's id and the reason, which is in the header unless it is given."""
    metadata = {**http_gate.text_headers(request.scope), REQUEST_ID: request.state.request_id}
    if reason:
        metadata[REASON] = reason
    return actors.actor(http_gate.identity(request.scope), ADMIN, metadata)


async def _content(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_LIMIT:
            raise InvalidArgument(f"the body is larger than {BODY_LIMIT} bytes")
    return bytes(data)
