"""Measures the requests on the ModelMesh port, whatever service they are for, and the runs of models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc

from bridge.errors import Code
from bridge.modelmesh.mesh_metrics import Ids, MeshMetrics
from bridge.modelmesh.methods import model_name
from bridge.serving.control import RoutesView
from bridge.serving.observer import Answered, Exchange

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]

_BY_METADATA = ("mm-vmodel-id", "mm-model-id")


class RequestMeter(grpc.aio.ServerInterceptor):
    """Tells `metrics` of each unary request; `full_names` names methods with their service."""

    def __init__(self, metrics: MeshMetrics, view: RoutesView, *, full_names: bool = False) -> None:
        self._metrics = metrics
        self._view = view
        self._full_names = full_names

    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        handler = await continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = details.method.lstrip("/")
        return grpc.unary_unary_rpc_method_handler(self._metered(handler.unary_unary, method))

    def _metered(self, answer: Callable[[bytes, Any], Awaitable[bytes]], method: str) -> Any:
        name = method if self._full_names else method.rpartition("/")[2]

        async def metered(request: bytes, context: Any) -> bytes:
            started, code, size = perf_counter(), Code.CANCELLED, None
            try:
                response = await answer(request, context)
                code, size = Code.OK, len(response)
                return response
            except grpc.aio.AbortError:
                code = Code(context.code() if isinstance(context.code(), int) else context.code().value[0])
                raise
            finally:
                ids = self._ids(method, request, context) if self._metrics.per_model else ("", "")
                self._metrics.requested(name, code, perf_counter() - started, len(request), size, ids)

        return metered

    def _ids(self, method: str, request: bytes, context: Any) -> Ids:
        """Only ids that are there: clients must not make labels."""
        metadata = dict(context.invocation_metadata() or ())
        name = model_name(method, request) or next((str(metadata[key]) for key in _BY_METADATA if key in metadata), "")
        routes = self._view.routes
        if name in routes.vmodels:
            return routes.vmodels[name].active, name
        return (name, "") if name in routes.registered else ("", "")


class RunMeter:
    """An observer of the request path that tells `metrics` of each run of a model."""

    def __init__(self, metrics: MeshMetrics, view: RoutesView) -> None:
        self._metrics = metrics
        self._view = view

    def answered(self, request: Answered) -> None:
        """The port's meter counts it."""

    def ran(self, api: str, model: str, seconds: float) -> None:
        known = self._metrics.per_model and model in self._view.routes.registered
        self._metrics.invoked(api, seconds, (model, "") if known else ("", ""))

    def examples(self, model: str, count: int) -> None:
        """ModelMesh knows nothing of examples."""

    def exchanged(self, exchange: Exchange) -> None:
        """Nothing of it is counted."""
