"""Measures the requests on the ModelMesh port, whatever service they are for, and the runs of models."""

from __future__ import annotations

from time import perf_counter

from bridge.codec.long_message import Message
from bridge.errors import BridgeError, Code
from bridge.modelmesh.mesh_metrics import Ids, MeshMetrics
from bridge.modelmesh.methods import model_name
from bridge.serving.control import RoutesView
from bridge.serving.observer import Answered, Exchange
from bridge.tfserving.rpc import Caller, Rpc, Service, Services

_BY_METADATA = ("mm-vmodel-id", "mm-model-id")


class RequestMeter:
    """Tells `metrics` of each unary request; `full_names` names methods with their service."""

    def __init__(self, metrics: MeshMetrics, view: RoutesView, *, full_names: bool = False) -> None:
        self._metrics = metrics
        self._view = view
        self._full_names = full_names

    def around(self, services: Services) -> Services:
        """`services` whose unary RPCs are metered."""
        return {name: self._service(name, service) for name, service in services.items()}

    def _service(self, name: str, service: Service) -> Service:
        return Service(
            {method: self._metered(rpc, f"{name}/{method}") for method, rpc in service.unary.items()}, service.streams
        )

    def _metered(self, rpc: Rpc, method: str) -> Rpc:
        name = method if self._full_names else method.rpartition("/")[2]

        async def metered(request: bytes, caller: Caller) -> Message:
            started, code, size = perf_counter(), Code.CANCELLED, None
            try:
                response = await rpc(request, caller)
                code, size = Code.OK, len(response)
                return response
            except BridgeError as error:
                code = error.code
                raise
            finally:
                ids = self._ids(method, request, caller) if self._metrics.per_model else ("", "")
                self._metrics.requested(name, code, perf_counter() - started, len(request), size, ids)

        return metered

    def _ids(self, method: str, request: bytes, caller: Caller) -> Ids:
        """Only ids that are there: clients must not make labels."""
        metadata = dict(caller.entries)
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
