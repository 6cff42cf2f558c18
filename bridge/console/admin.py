"""The admin port: an API in JSON over HTTP for operators, probes and the `bridge` command, and the console's pages.

Models and labels are named in query parameters, since their names may hold any character.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bridge.console import openapi, questions, vmodel_body
from bridge.console.answers import error_response, json_response
from bridge.console.health import Readiness
from bridge.console.history_api import HistoryApi
from bridge.console.hosts import LocalHosts
from bridge.console.integrity_api import IntegrityApi
from bridge.console.pages import site
from bridge.console.pages.renderer import Renderer
from bridge.console.rollback_api import RollbackApi
from bridge.console.stream import EventStream, Listeners
from bridge.errors import BridgeError, Code, InvalidArgument
from bridge.lifecycle.history_operations import HistoryOperations
from bridge.lifecycle.integrity_operations import IntegrityOperations
from bridge.lifecycle.operations import Operations
from bridge.modelmesh.operations import ModelMeshOperations

logger = logging.getLogger(__name__)

EVENTS_PER_PAGE = 100
MAX_EVENTS_PER_PAGE = 1000
LARGEST_SEQUENCE = 2**63 - 1

Handler = Callable[[Request], Awaitable[Response]]
Gated = Callable[[ASGIApp], ASGIApp]
"""Puts an application behind what decides who may call it."""


def _ungated(app: ASGIApp) -> ASGIApp:
    return app


class MetricsPage(Protocol):
    """The metrics of this process in Prometheus' text format."""

    content_type: str

    async def read(self) -> bytes: ...


def admin_app(
    operations: Operations,
    modelmesh: ModelMeshOperations,
    health: Readiness,
    metrics: MetricsPage,
    integrity: IntegrityOperations,
    *,
    local_only: bool,
    gate: Gated = _ungated,
    listeners: Listeners | None = None,
) -> Starlette:
    """The ASGI application of the admin port, behind `gate`: the API and the console.

    `local_only` is for a port on loopback: it refuses foreign hosts. `listeners` are those of the port.
    """
    stream = EventStream(operations.history, listeners or Listeners())
    app = Starlette(
        routes=[
            *site.routes(Renderer(), operations, modelmesh, health),
            *_probes(health, metrics),
            *_resources(operations),
            *_modelmesh(modelmesh),
            *_integrity(integrity),
            Route("/api/v1/stream", _answering(stream.stream)),
        ],
        exception_handlers={HTTPException: _http_error},
        middleware=[*([Middleware(LocalHosts)] if local_only else []), Middleware(gate)],
    )
    app.router.redirect_slashes = False
    return app


def _probes(health: Readiness, metrics: MetricsPage) -> list[Route]:
    async def livez(request: Request) -> Response:
        return json_response({"status": "alive"})

    async def readyz(request: Request) -> Response:
        reasons = await health.reasons()
        status = "not ready" if reasons else "ready"
        return json_response({"status": status, "reasons": reasons}, 503 if reasons else 200)

    async def metrics_page(request: Request) -> Response:
        return Response(await metrics.read(), media_type=metrics.content_type)

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics_page)]


def _resources(operations: Operations) -> list[Route]:
    api = AdminApi(operations)
    return [
        Route("/api/v1/models", _answering(api.models)),
        Route("/api/v1/versions", _answering(api.versions)),
        Route("/api/v1/labels", _answering(api.labels)),
        Route("/api/v1/instances", _answering(api.instances)),
        Route("/api/v1/events", _answering(api.events)),
        Route("/api/v1/policy", _answering(api.set_policy), methods=["PUT"]),
        Route("/api/v1/label", _answering(api.change_label), methods=["PUT", "DELETE"]),
        *_rollback(operations),
        *_history(operations.history),
    ]


def _rollback(operations: Operations) -> list[Route]:
    api = RollbackApi(operations)
    return [
        Route("/api/v1/provenance", _answering(api.provenance)),
        Route("/api/v1/rollback", _answering(api.plan)),
        Route("/api/v1/rollback", _answering(api.run), methods=["POST"]),
        Route("/api/v1/pin", _answering(api.unpin), methods=["DELETE"]),
    ]


def _history(operations: HistoryOperations) -> list[Route]:
    api = HistoryApi(operations)
    return [
        Route("/api/v1/history", _answering(api.history)),
        Route("/api/v1/history/at", _answering(api.at)),
        Route("/api/v1/history/diff", _answering(api.diff)),
        Route("/api/v1/history/live", _answering(api.live)),
        Route("/api/v1/openapi.json", _answering(_description)),
    ]


async def _description(request: Request) -> Any:
    questions.parameters(request)
    return openapi.document()


def _modelmesh(modelmesh: ModelMeshOperations) -> list[Route]:
    api = ModelMeshApi(modelmesh)
    return [
        Route("/api/v1/registered_models", _answering(api.registered_models)),
        Route("/api/v1/vmodels", _answering(api.vmodels)),
        Route("/api/v1/vmodel", _answering(api.change_vmodel), methods=["PUT", "DELETE"]),
    ]


def _integrity(integrity: IntegrityOperations) -> list[Route]:
    api = IntegrityApi(integrity)
    return [
        Route("/api/v1/verify", _answering(api.verify)),
        Route("/api/v1/export/anchor", _answering(api.anchor)),
        Route("/api/v1/export/events", _answering(api.events)),
    ]


class AdminApi:
    """One method for each resource: converts, asks Operations, converts back."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def models(self, request: Request) -> Any:
        query = questions.parameters(request, "name")
        return {"models": _plain(await self._operations.models(query.get("name")))}

    async def versions(self, request: Request) -> Any:
        query = questions.parameters(request, "model")
        return {"versions": _plain(await self._operations.versions(query.get("model")))}

    async def labels(self, request: Request) -> Any:
        query = questions.parameters(request, "model")
        return {"labels": _plain(await self._operations.labels(query.get("model")))}

    async def instances(self, request: Request) -> Any:
        questions.parameters(request)
        return {"instances": _plain(await self._operations.instances())}

    async def events(self, request: Request) -> Any:
        query = questions.parameters(request, "subject", "action", "after", "limit")
        after = questions.number(query.get("after", "0"), "after", 0, LARGEST_SEQUENCE)
        limit = questions.number(query.get("limit", str(EVENTS_PER_PAGE)), "limit", 1, MAX_EVENTS_PER_PAGE)
        events = await self._operations.events(query.get("subject"), query.get("action"), after, limit)
        return {"events": _plain(events)}

    async def set_policy(self, request: Request) -> Any:
        (model,) = questions.required(request, "model")
        policy = await questions.body(request)
        return {"changed": await self._operations.set_policy(model, policy, questions.actor(request))}

    async def change_label(self, request: Request) -> Any:
        model, label = questions.required(request, "model", "label")
        actor = questions.actor(request)
        if request.method == "DELETE":
            return {"changed": await self._operations.remove_label(model, label, actor)}
        match await questions.body(request):
            case {"version": int(version), **others} if not others and type(version) is int:
                return {"changed": await self._operations.set_label(model, label, version, actor)}
        raise InvalidArgument('the body has to be {"version": N}')


class ModelMeshApi:
    """The resources of ModelMesh."""

    def __init__(self, modelmesh: ModelMeshOperations) -> None:
        self._modelmesh = modelmesh

    async def registered_models(self, request: Request) -> Any:
        query = questions.parameters(request, "id")
        return {"registered_models": _plain(await self._modelmesh.registered_models(query.get("id")))}

    async def vmodels(self, request: Request) -> Any:
        query = questions.parameters(request, "id")
        return {"vmodels": _plain(await self._modelmesh.vmodels(query.get("id")))}

    async def change_vmodel(self, request: Request) -> Any:
        (id,) = questions.required(request, "id")
        actor = questions.actor(request)
        if request.method == "DELETE":
            return {"changed": await self._modelmesh.delete_vmodel(id, actor)}
        wanted, wait = vmodel_body.read(id, await questions.body(request))
        return {"changed": await self._modelmesh.set_vmodel(wanted, actor, wait=wait)}


def _answering(call: Callable[[Request], Awaitable[Any]]) -> Handler:
    """The handler of `call`: its result as JSON unless it is a response, its errors with their codes, the request's id
    echoed."""

    async def handle(request: Request) -> Response:
        request.state.request_id = request.headers.get("x-request-id") or secrets.token_hex(8)
        try:
            answer = await call(request)
            response = answer if isinstance(answer, Response) else json_response(answer)
        except BridgeError as error:
            response = error_response(error.message, error.code, error.http_status)
        except Exception:
            logger.exception("an admin call failed by a fault of the bridge: %s %s", request.method, request.url.path)
            response = error_response("Internal error of the bridge; its log says more.", Code.INTERNAL, 500)
        response.headers["x-request-id"] = request.state.request_id
        return response

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router refuses: a path or a method that is not there."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        message = f"{request.method} is not allowed on {request.url.path}"
        response = error_response(message, Code.UNIMPLEMENTED, error.status_code)
        response.headers.update(error.headers or {})
        return response
    return error_response(f"no such resource: {request.url.path}", Code.NOT_FOUND, error.status_code)


def _plain(items: Sequence[Any]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]
