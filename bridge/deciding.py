"""Who decides for a server: its own control plane, or among several bridges on one database that of the leader."""

from __future__ import annotations

from typing import Protocol

from starlette.types import ASGIApp

from bridge.client_parts import Management
from bridge.console.health import Health
from bridge.control_parts import ControlParts, connected_view, meters
from bridge.lifecycle.first_load import wait_for_models
from bridge.management import management
from bridge.modelmesh import static_models
from bridge.request_parts import Meters, RequestPath
from bridge.serving.control import Control, Routers, RoutesView
from bridge.stage import Stage
from bridge.term import Term


class Deciding(Protocol):
    """What the ports of a server need of whoever decides."""

    @property
    def view(self) -> RoutesView:
        """The snapshots that this process serves by."""

    @property
    def control(self) -> Control:
        """What the request path asks."""

    @property
    def gauges(self) -> Meters: ...

    @property
    def routers(self) -> Routers:
        """Told of the routers in other processes of this server."""

    async def start(self, path: RequestPath) -> None:
        """Begin to decide, or to follow. Raises BridgeError where this server cannot start."""

    def admin(self) -> ASGIApp:
        """The application of the admin port."""

    async def load_first(self, *, models_first: bool) -> None:
        """Return once everything serves that has to before clients' ports open. Raises BridgeError if it cannot."""

    def management(self) -> Management:
        """What the ports of clients leave to whoever decides."""

    async def settled(self) -> None:
        """Return once every configured model serves, ended in error, or has nothing to serve."""


class Alone:
    """A bridge that has its database to itself decides from its start to its end."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        control = ControlParts(stage.inputs, stage.state, stage.access, stage.executors)
        self.term = Term(stage.inputs, control, stage.access, stage.mirrors, stage.serving, stage.mesh)
        self.view = connected_view(self.term.plane)
        self.control: Control = self.term.plane
        self.routers: Routers = self.term.plane.leases
        self.term.add_instances(stage.triton, stage.parts)
        denied = stage.guard.denials.metric
        self.gauges = meters(self.term.plane, stage.access, stage.serving, stage.mesh, self.term.mesh, denied)
        self._path: RequestPath | None = None

    async def start(self, path: RequestPath) -> None:
        stage, access = self._stage, self._stage.access
        self._path = path
        stage.parts.spawn(access.recorder.run(), "recorder")
        stage.parts.on_close(lambda: access.record_end(stage.cause()))
        stage.guard.start(stage.parts)
        self.term.plane.publisher.subscribe(self.term.live.follow)
        await self.term.start(stage.parts)

    def admin(self) -> ASGIApp:
        term, access = self.term, self._stage.access
        health = Health(term.plane, access.registry, access.thread)
        return self._stage.ports.admin_app(term.operations(), term.modelmesh_operations(), health, self.gauges.own)

    async def load_first(self, *, models_first: bool) -> None:
        await load_first(self.term, self._stage, models_first=models_first)

    def management(self) -> Management:
        assert self._path is not None
        return management(self._stage.inputs, self.term.configurator, self.term.mesh, self._path, self.gauges)

    async def settled(self) -> None:
        await self.term.plane.wait_settled()


async def load_first(term: Term, stage: Stage, *, models_first: bool, register: bool = True) -> None:
    """Wait for models where clients' ports open after them; `register` those that are listed. Raises BridgeError."""
    if models_first:
        await wait_for_models(term.plane)
    if term.mesh is not None and register:
        await static_models.register(term.mesh.manager, stage.inputs.listed_models)
