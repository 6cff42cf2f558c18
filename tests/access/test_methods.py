"""The table of scopes knows every call of every port."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import Mock

import pytest
from starlette.routing import Route

from bridge.access import methods
from bridge.access.identity import Scope
from bridge.console.admin import admin_app
from bridge.kserve.rest_api import V2RestApi
from bridge.modelmesh.service import SERVICE as MESH
from bridge.modelmesh.service import ModelMeshService
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore
from bridge.serving.legs import LegPool
from bridge.telemetry import grpc_health
from bridge.telemetry.grpc_health import HealthService
from bridge.tfserving.grpc_server import GrpcServer
from bridge.tfserving.offload import Offload
from bridge.tfserving.rest_api import RestApi
from bridge.tfserving.rpc import Service, Services
from tests.serving.half_plus_two import FakeLeg
from tests.tfserving.server_thread import SilentControl


@pytest.fixture
def core() -> InferenceCore:
    return InferenceCore(RoutesView(), LegPool(cast(Any, FakeLeg)), SilentControl())


def test_every_rpc_has_a_scope(core: InferenceCore) -> None:
    found: list[Services] = []
    mesh = Service(ModelMeshService(cast(Any, None)).rpcs())
    more = {MESH: mesh, grpc_health.SERVICE: HealthService(()).service()}
    GrpcServer(core, services=more, open_server=cast(Any, found.append))
    [services] = found
    served = {f"{name}/{method}" for name, service in services.items() for method in (*service.unary, *service.streams)}
    assert served == set(methods.GRPC)


def test_every_rest_action_has_a_scope(core: InferenceCore) -> None:
    offload = Offload(1)
    api, v2 = RestApi(core, None, offload), V2RestApi(core, None, offload)
    offload.close()
    served = {*api._actions, *(f"v2/{name}" for name in v2._actions), methods.METRICS}
    assert served == set(methods.REST)


def test_every_admin_route_has_a_scope() -> None:
    app = admin_app(*[Mock()] * 5, local_only=False)
    served = {
        f"{verb} {route.path}"
        for route in app.routes
        if isinstance(route, Route)
        for verb in (route.methods or set()) - {"HEAD"}
    }
    assert served <= set(methods.ADMIN)


def test_what_changes_something_is_management() -> None:
    changing = {name for name in methods.ADMIN if not name.startswith("GET ")} - {"POST /login", "POST /logout"}
    assert {methods.ADMIN[name] for name in changing} == {Scope.MANAGE}
    openings = [name for needs in (methods.GRPC, methods.REST, methods.ADMIN) for name in needs if needs[name] is None]
    assert sorted(openings) == [
        "GET /livez",
        "GET /login",
        "GET /readyz",
        "GET /static/console.css",
        "GET /static/console.js",
        "GET /static/icon.svg",
        "POST /login",
        "POST /logout",
        "grpc.health.v1.Health/Check",
        "grpc.health.v1.Health/Watch",
        "inference.GRPCInferenceService/ServerLive",
        "inference.GRPCInferenceService/ServerReady",
        "v2/server_live",
        "v2/server_ready",
    ]
