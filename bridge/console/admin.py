"""The admin API: JSON over HTTP, for operators, probes and the `bridge` command.

Models and labels are named in query parameters, since their names may hold any character.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.console.health import Health
from bridge.errors import BridgeError, Code, InvalidArgument
from bridge.lifecycle.operations import Operations
from bridge.registry.records import Actor

logger = logging.getLogger(__name__)

MAX_EVENTS = 1000


class MetricsPage(Protocol):
    """The metrics of this process in Prometheus' text format."""

    content_type: str

    def page(self) -> bytes: ...


def admin_app(operations: Operations, health: Health, metrics: MetricsPage) -> Starlette:
    """The ASGI application of the admin port."""
    api = _Api(operations)

    async def livez(request: Request) -> Response:
        return _json({"status": "alive"})

    async def readyz(request: Request) -> Response:
        reasons = await health.reasons()
        return _json({"status": "not ready" if reasons else "ready", "reasons": reasons}, 503 if reasons else 200)

    async def metrics_page(request: Request) -> Response:
        return Response(metrics.page(), media_type=metrics.content_type)

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/metrics", metrics_page),
            Route("/api/v1/models", _handler(api.models)),
            Route("/api/v1/versions", _handler(api.versions)),
            Route("/api/v1/labels", _handler(api.labels)),
            Route("/api/v1/instances", _handler(api.instances)),
            Route("/api/v1/events", _handler(api.events)),
            Route("/api/v1/policy", _handler(api.set_policy), methods=["PUT"]),
            Route("/api/v1/label", _handler(api.set_label), methods=["PUT"]),
            Route("/api/v1/label", _handler(api.remove_label), methods=["DELETE"]),
        ],
        exception_handlers={HTTPException: _http_error},
    )


class _Api:
    """One method for each call: converts, asks Operations, converts back."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def models(self, request: Request) -> Any:
        return {"models": _plain(await self._operations.models(request.query_params.get("name")))}

    async def versions(self, request: Request) -> Any:
        return {"versions": _plain(await self._operations.versions(request.query_params.get("model")))}

    async def labels(self, request: Request) -> Any:
        return {"labels": _plain(await self._operations.labels(request.query_params.get("model")))}

    async def instances(self, request: Request) -> Any:
        return {"instances": _plain(await self._operations.instances())}

    async def events(self, request: Request) -> Any:
        query = request.query_params
        limit = _integer(query.get("limit", "100"), "limit")
        if not 1 <= limit <= MAX_EVENTS:
            raise InvalidArgument(f"limit={limit} is not between 1 and {MAX_EVENTS}")
        after = _integer(query.get("after", "0"), "after")
        events = await self._operations.events(query.get("subject"), query.get("action"), after, limit)
        return {"events": _plain(events)}

    async def set_policy(self, request: Request) -> Any:
        policy = await _body(request)
        return {"changed": await self._operations.set_policy(_named(request, "model"), policy, _actor(request))}

    async def set_label(self, request: Request) -> Any:
        model, label = _named(request, "model"), _named(request, "label")
        version = (await _body(request)).get("version")
        if type(version) is not int:
            raise InvalidArgument('the body has to be {"version": N}')
        return {"changed": await self._operations.set_label(model, label, version, _actor(request))}

    async def remove_label(self, request: Request) -> Any:
        model, label = _named(request, "model"), _named(request, "label")
        return {"changed": await self._operations.remove_label(model, label, _actor(request))}


def _handler(call: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        request.state.request_id = request.headers.get("x-request-id") or secrets.token_hex(8)
        try:
            response = _json(await call(request))
        except BridgeError as error:
            response = _error(error.message, error.code, error.http_status)
        except Exception:
            logger.exception("an admin call failed by a fault of the bridge: %s %s", request.method, request.url.path)
            response = _error("Internal error of the bridge; its log says more.", Code.INTERNAL, 500)
        response.headers["x-request-id"] = request.state.request_id
        return response

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        return _error(f"{request.method} is not allowed on {request.url.path}", Code.UNIMPLEMENTED, status)
    return _error(f"no such resource: {request.url.path}", Code.NOT_FOUND, status)


def _actor(request: Request) -> Actor:
    peer = f"{request.client.host}:{request.client.port}" if request.client else "unknown"
    return Actor(peer, "admin", request.headers.get("x-audit-reason", ""), request.state.request_id)


def _named(request: Request, parameter: str) -> str:
    value = request.query_params.get(parameter, "")
    if not value:
        raise InvalidArgument(f"the query parameter {parameter} is missing")
    return value


async def _body(request: Request) -> dict[str, Any]:
    try:
        value = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidArgument("the body is not a JSON object")
    return value


def _integer(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidArgument(f"{name}={text} is not a number") from error


def _plain(items: Sequence[Any]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value, default=dict), status, media_type="application/json")


def _error(message: str, code: Code, status: int) -> Response:
    return _json({"error": message, "code": code.name}, status)
