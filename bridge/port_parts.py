"""The ports of a server, opened one kind after the other; each closes with the server."""

from __future__ import annotations

from pathlib import Path

import grpc

from bridge.agents.app import agent_app
from bridge.agents.mirrors import Mirrors
from bridge.client_ports import EVERYWHERE, ClientPorts
from bridge.console.admin import admin_app
from bridge.console.health import Health
from bridge.console.hosts import is_loopback
from bridge.errors import InvalidArgument
from bridge.executors import Executors
from bridge.http_server import HttpServer
from bridge.inputs import Inputs
from bridge.lifecycle.configurator import Configurator
from bridge.lifecycle.operations import Operations
from bridge.modelmesh import service as model_mesh
from bridge.modelmesh.mesh import ModelMesh
from bridge.modelmesh.operations import ModelMeshOperations
from bridge.modelmesh.request_meter import RequestMeter
from bridge.modelmesh.service import ModelMeshService
from bridge.parts import Parts
from bridge.request_parts import Meters, RequestPath
from bridge.serving.addressing import MODELMESH
from bridge.telemetry import grpc_health
from bridge.telemetry.grpc_health import HealthService
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.metrics_port import metrics_server
from bridge.tfserving.batching_metrics import BatchingMetrics
from bridge.tfserving.grpc_server import GrpcServer
from bridge.tfserving.metrics_page import MetricsPage
from bridge.tfserving.reload import reloader
from bridge.tfserving.rest_server import RestServer
from bridge.tfserving.rpc import unary

HEALTH_NAMES = ("", "ModelService", "PredictionService")
"""TF Serving's, which are not the full names of its services."""


class PortParts:
    """Opens ports; every method answers the bound ones by name. Raises BridgeError for what cannot be bound."""

    def __init__(self, inputs: Inputs, parts: Parts) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._parts = parts

    async def agents(self, deployment: str, executors: Executors) -> Mirrors | None:
        """What agents on Tritons' hosts copy, None where their port is off."""
        settings = self._settings
        if not settings.agent_port:
            return None
        mirrors = Mirrors(deployment, executors.loads)
        server = HttpServer(agent_app(mirrors, _token(settings.agent_token_file)))
        await server.start(settings.agent_address, settings.agent_port)
        self._parts.on_close(lambda: server.stop(1.0))
        return mirrors

    async def admin(
        self, operations: Operations, vmodels: ModelMeshOperations, health: Health, metrics: Metrics
    ) -> dict[str, int]:
        settings = self._settings
        if not settings.admin_port:
            return {}
        local_only = is_loopback(settings.admin_address)
        server = HttpServer(admin_app(operations, vmodels, health, metrics, local_only=local_only))
        port = await server.start(settings.admin_address, settings.admin_port)
        self._parts.on_close(lambda: server.stop(1.0))
        return {"admin": port}

    async def clients(
        self, path: RequestPath, configurator: Configurator, meters: Meters, *, rest_optional: bool
    ) -> dict[str, int]:
        """The ports of TF Serving clients."""
        health = HealthService(HEALTH_NAMES)
        ports = ClientPorts(
            self._settings,
            self._grpc(path, configurator, meters, health),
            self._rest(path, meters),
            rest_optional=rest_optional,
        )
        self._parts.on_close(lambda: ports.close(self._settings.drain_seconds))
        self._parts.on_close_call(health.shut_down)
        return await ports.open()

    async def modelmesh(self, mesh: ModelMesh, path: RequestPath, meters: Meters) -> dict[str, int]:
        """ModelMesh's port, and that of its metrics where MM_METRICS asks for one."""
        inputs, settings, observe = self._inputs, self._settings, meters.own.requests("modelmesh")
        service = ModelMeshService(mesh.manager, settings.modelmesh_default_vmodel_owner)
        rpcs = {name: unary(rpc, name, observe) for name, rpc in service.rpcs().items()}
        server = GrpcServer(
            path.core,
            as_content=settings.enable_serialization_as_tensor_content,
            credentials=inputs.grpc_credentials(inputs.mesh.tls or inputs.tls),
            addressing=MODELMESH,
            handlers={model_mesh.SERVICE: grpc.method_handlers_generic_handler(model_mesh.SERVICE, rpcs)},
            arguments=inputs.channel_arguments,
            interceptors=[RequestMeter(meters.mesh, path.view, full_names=inputs.mesh_metrics.full_names)],
            observe=observe,
        )
        port = await server.start(f"{EVERYWHERE}:{settings.modelmesh_port}")
        self._parts.on_close(lambda: server.stop(settings.drain_seconds))
        return {"modelmesh": port, **await self._mesh_metrics(meters)}

    async def _mesh_metrics(self, meters: Meters) -> dict[str, int]:
        options = self._inputs.mesh.metrics
        if options is None:
            return {}
        server = metrics_server(meters.own, https=options.https)
        port = await server.start(EVERYWHERE, options.port)
        self._parts.on_close(lambda: server.stop(1.0))
        return {"metrics": port}

    def _grpc(self, path: RequestPath, configurator: Configurator, meters: Meters, health: HealthService) -> GrpcServer:
        inputs, settings = self._inputs, self._settings
        return GrpcServer(
            path.core,
            reload=reloader(configurator),
            metric=meters.serving.first_value,
            as_content=settings.enable_serialization_as_tensor_content,
            credentials=inputs.grpc_credentials(inputs.tls),
            handlers={grpc_health.SERVICE: health.handler()} if settings.enable_grpc_healthcheck_service else {},
            arguments=inputs.channel_arguments,
            observe=meters.own.requests("grpc"),
        )

    def _rest(self, path: RequestPath, meters: Meters) -> RestServer:
        inputs, settings = self._inputs, self._settings
        batches = BatchingMetrics(path.runners if inputs.bundle.batching else None, meters.serving)
        return RestServer(
            path.core,
            timeout_in_ms=settings.rest_api_timeout_in_ms,
            threads=settings.rest_api_num_threads,
            cors=settings.rest_api_enable_cors_support,
            tls=inputs.tls.ssl_context() if inputs.tls else None,
            page=MetricsPage(inputs.page_path, batches.page) if inputs.page_path else None,
            observe=meters.own.requests("rest"),
        )


def _token(path: str) -> str:
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--agent_token_file={path} cannot be read: {error}") from error
    if not token.isascii() or not token:
        raise InvalidArgument(f"--agent_token_file={path} holds no token")
    return token
