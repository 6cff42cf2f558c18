"""What V2 clients hear of the server as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritonclient.grpc import service_pb2

from bridge import __version__
from bridge.serving.routes import ModelRoute, RegisteredRoute, Routes, VersionState

NAME = "triton-bridge"
EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "parameters", "statistics")

_READY, _UNAVAILABLE = "READY", "UNAVAILABLE"
_STATES = {
    VersionState.START: "LOADING",
    VersionState.LOADING: "LOADING",
    VersionState.AVAILABLE: _READY,
    VersionState.UNLOADING: "UNLOADING",
}


def metadata() -> Any:
    """The ServerMetadataResponse."""
    return service_pb2.ServerMetadataResponse(name=NAME, version=__version__, extensions=EXTENSIONS)


def is_ready(routes: Routes) -> bool:
    """Whether there is a Triton to send requests to."""
    return bool(routes.instances)


def index(routes: Routes, *, ready_only: bool) -> Any:
    """The RepositoryIndexResponse: each version of TF Serving's models, each registered model and each vmodel."""
    response = service_pb2.RepositoryIndexResponse()
    for name, version, state, reason in _rows(routes):
        if state == _READY or not ready_only:
            response.models.add(name=name, version=version, state=state, reason=reason)
    return response


def _rows(routes: Routes) -> Iterator[tuple[str, str, str, str]]:
    for model in routes.models.values():
        yield from _versions(model)
    for registered in routes.registered.values():
        yield (registered.id, *_registered(registered))
    for vmodel in routes.vmodels.values():
        active = routes.registered.get(vmodel.active)
        yield (vmodel.id, *(_registered(active) if active else ("", _UNAVAILABLE, "its model is not registered")))


def _versions(model: ModelRoute) -> Iterator[tuple[str, str, str, str]]:
    for status in model.statuses:
        yield model.name, str(status.version), _STATES.get(status.state, _UNAVAILABLE), status.message


def _registered(route: RegisteredRoute) -> tuple[str, str, str]:
    version = str(route.servable.version) if route.servable else ""
    if route.loaded:
        return version, _READY, ""
    return version, _UNAVAILABLE, route.failure.message if route.failure else "loaded on demand"
