"""The ports of operators and agents, opened one kind after the other; each closes with the server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from starlette.types import ASGIApp

from bridge.access.gates import Gates
from bridge.access.http_gate import GatedApp
from bridge.addresses import is_loopback
from bridge.agents.app import agent_app
from bridge.agents.mirrors import Mirrors
from bridge.client_ports import EVERYWHERE
from bridge.console.admin import admin_app
from bridge.console.front import Denied, Front
from bridge.console.health import Readiness
from bridge.console.hosts import LocalHosts
from bridge.console.pages.renderer import Renderer
from bridge.console.sessions import Sessions
from bridge.console.stream import Listeners
from bridge.errors import InvalidArgument
from bridge.executors import Executors
from bridge.http_server import HttpServer
from bridge.inputs import Inputs
from bridge.lifecycle.integrity_operations import IntegrityOperations
from bridge.lifecycle.operations import Operations
from bridge.modelmesh.operations import ModelMeshOperations
from bridge.parts import Parts
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.metrics_port import metrics_server


class PortParts:
    """Opens ports; every method answers the bound ones by name. Raises BridgeError for what cannot be bound."""

    def __init__(self, inputs: Inputs, parts: Parts, gates: Gates, integrity: IntegrityOperations) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._parts = parts
        self._gates = gates
        self._integrity = integrity
        self._renderer = Renderer()
        self._listeners = Listeners()

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

    def admin_app(
        self, operations: Operations, vmodels: ModelMeshOperations, health: Readiness, metrics: Metrics
    ) -> ASGIApp:
        """The application of the admin port, behind its gate."""
        return admin_app(
            operations,
            vmodels,
            health,
            metrics,
            self._integrity,
            local_only=self.admin_is_local,
            gate=partial(
                GatedApp, gate=self._gates.admin(), needs=self._gates.admin_needs, denied=Denied(self._renderer)
            ),
            listeners=self._listeners,
        )

    @property
    def admin_is_local(self) -> bool:
        """Whether the admin port can be reached from this machine only."""
        return is_loopback(self._settings.admin_address)

    async def admin(self, app: ASGIApp) -> dict[str, int]:
        """The admin port."""
        settings, tls = self._settings, self._inputs.admin_tls
        if not settings.admin_port:
            return {}
        front: ASGIApp = Front(app, self._gates.admin(), Sessions(), self._renderer)
        server = HttpServer(LocalHosts(front) if self.admin_is_local else front, tls.ssl_context() if tls else None)
        port = await server.start(settings.admin_address, settings.admin_port)
        self._parts.on_close(lambda: server.stop(1.0))
        self._parts.on_close_call(self._listeners.close)
        return {"admin": port}

    async def mesh_metrics(self, metrics: Metrics) -> dict[str, int]:
        """The port of ModelMesh's metrics where MM_METRICS asks for one."""
        options = self._inputs.mesh.metrics
        if options is None:
            return {}
        gate = partial(GatedApp, gate=self._gates.client("modelmesh"), needs=self._gates.admin_needs)
        server = metrics_server(metrics, https=options.https, gate=gate)
        port = await server.start(EVERYWHERE, options.port)
        self._parts.on_close(lambda: server.stop(1.0))
        return {"metrics": port}


def _token(path: str) -> str:
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--agent_token_file={path} cannot be read: {error}") from error
    if not token.isascii() or not token:
        raise InvalidArgument(f"--agent_token_file={path} holds no token")
    return token
