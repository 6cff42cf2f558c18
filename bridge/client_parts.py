"""The ports of clients: TF Serving's, ModelMesh's, and V2 on both.

The control plane is asked through `Management` only. Nothing here imports the control plane or the registry, so that
worker processes stay small.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bridge.access.gates import Gates
from bridge.access.grpc_gate import RpcGate
from bridge.client_inputs import ClientInputs
from bridge.client_ports import EVERYWHERE, ClientPorts
from bridge.modelmesh.methods import MESH_SERVICE
from bridge.modelmesh.request_meter import RequestMeter
from bridge.parts import Parts
from bridge.request_parts import Meters, RequestPath
from bridge.serving.addressing import MODELMESH
from bridge.telemetry import grpc_health
from bridge.telemetry.grpc_health import HealthService
from bridge.telemetry.observers import RequestObserver
from bridge.tfserving import model_service
from bridge.tfserving.grpc_server import GrpcServer
from bridge.tfserving.metrics_page import MetricsPage
from bridge.tfserving.model_service import ModelService
from bridge.tfserving.rest_access import RestAccess
from bridge.tfserving.rest_server import RestServer
from bridge.tfserving.rpc import Rpc, Service, answered

HEALTH_NAMES = ("", "ModelService", "PredictionService")
"""TF Serving's, which are not the full names of its services."""


@dataclass(frozen=True)
class Management:
    """What the client ports leave to the control plane, which may be in another process.

    `rpcs` are RPCs by service and method, `page` makes TF Serving's Prometheus page.
    """

    rpcs: Mapping[str, Mapping[str, Rpc]]
    page: Callable[[], Awaitable[bytes]]


class ClientParts:
    """Opens the ports of clients; every method answers the bound ones by name. Raises BridgeError for what cannot be
    bound. With `reuse_port` other processes may share them."""

    def __init__(
        self,
        inputs: ClientInputs,
        parts: Parts,
        path: RequestPath,
        meters: Meters,
        management: Management,
        gates: Gates,
        *,
        reuse_port: bool = False,
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._parts = parts
        self._path = path
        self._meters = meters
        self._management = management
        self._gates = gates
        self._reuse_port = reuse_port

    async def open(self, *, rest_optional: bool) -> dict[str, int]:
        """All of them."""
        ports = await self.tf_serving(rest_optional=rest_optional)
        return ports | (await self.modelmesh() if self._settings.modelmesh_port else {})

    async def in_step(self) -> None:
        """Return once clients are answered by what was published up to now."""

    async def tf_serving(self, *, rest_optional: bool) -> dict[str, int]:
        """The ports of TF Serving clients."""
        health = HealthService(HEALTH_NAMES)
        ports = ClientPorts(self._settings, self._grpc(health), self._rest(), rest_optional=rest_optional)
        self._parts.on_close(lambda: ports.close(self._settings.drain_seconds))
        self._parts.on_close_call(health.shut_down)
        return await ports.open()

    async def modelmesh(self) -> dict[str, int]:
        """ModelMesh's port."""
        inputs, settings, meters = self._inputs, self._settings, self._meters
        observe = meters.own.requests("modelmesh")
        meter = RequestMeter(meters.mesh, self._path.view, full_names=inputs.mesh_metrics.full_names)
        server = GrpcServer(
            self._path.core,
            as_content=settings.enable_serialization_as_tensor_content,
            addressing=MODELMESH,
            services={MESH_SERVICE: _service(self._management.rpcs[MESH_SERVICE], observe)},
            wraps=[RpcGate(self._gates.client("modelmesh"), observe).before, meter.around],
            observe=observe,
            open_server=inputs.open_server(inputs.mesh_tls, reuse_port=self._reuse_port),
        )
        port = await server.start(f"{EVERYWHERE}:{settings.modelmesh_port}")
        self._parts.on_close(lambda: server.stop(settings.drain_seconds))
        return {"modelmesh": port}

    def _grpc(self, health: HealthService) -> GrpcServer:
        inputs, settings = self._inputs, self._settings
        observe = self._meters.own.requests("grpc")
        models = {**ModelService(self._path.view).rpcs(), **self._management.rpcs[model_service.SERVICE]}
        services = {model_service.SERVICE: _service(models, observe)}
        if settings.enable_grpc_healthcheck_service:
            services[grpc_health.SERVICE] = health.service()
        return GrpcServer(
            self._path.core,
            as_content=settings.enable_serialization_as_tensor_content,
            services=services,
            wraps=[RpcGate(self._gates.client("grpc"), observe).before],
            observe=observe,
            open_server=inputs.open_server(inputs.tls, reuse_port=self._reuse_port),
        )

    def _rest(self) -> RestServer:
        inputs, settings = self._inputs, self._settings
        return RestServer(
            self._path.core,
            timeout_in_ms=settings.rest_api_timeout_in_ms,
            threads=settings.rest_api_num_threads,
            cors=settings.rest_api_enable_cors_support,
            tls=inputs.tls.ssl_context() if inputs.tls else None,
            page=MetricsPage(inputs.page_path, self._management.page) if inputs.page_path else None,
            observe=self._meters.own.requests("rest"),
            reuse_port=self._reuse_port,
            access=self._rest_access(),
        )

    def _rest_access(self) -> RestAccess | None:
        gate = self._gates.client("rest")
        return RestAccess(gate, self._gates.rest_needs) if gate.closed else None


def _service(rpcs: Mapping[str, Rpc], observe: RequestObserver) -> Service:
    return Service({name: answered(rpc, name, observe) for name, rpc in rpcs.items()})
