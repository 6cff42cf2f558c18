"""A bridge among several on one database, each of which has a Triton of its own as its child."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Self

from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from bridge.client_parts import Management
from bridge.console.health import Health
from bridge.control_parts import ControlParts, connected_view
from bridge.deciding import load_first
from bridge.errors import BridgeError, Unavailable
from bridge.instances import EMBEDDED, Child
from bridge.lifecycle.backoff import Backoff
from bridge.lifecycle.configurator import STARTER
from bridge.lifecycle.live import LiveTracker
from bridge.management import management, rpc_names
from bridge.registry import notices
from bridge.registry.records import InstanceState, Lease, Pulse
from bridge.registry.registry import Registry
from bridge.registry_access import replica_name
from bridge.replica_link import ReplicaLink
from bridge.replicas.authority import Authority
from bridge.replicas.changes import Changes
from bridge.replicas.gauges import ReplicaCollector
from bridge.replicas.observations import ReplicaObservations
from bridge.replicas.offices import Office
from bridge.request_parts import Meters, RequestPath
from bridge.serving.control import Control, Routers, RoutesView
from bridge.serving.routes import Routes
from bridge.stage import Stage
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.state import StateCollector
from bridge.term import Term

logger = logging.getLogger(__name__)

CATCH_UP_SECONDS = 5.0
"""How long a change that the leader made may take to hold here before its caller hears of it."""
FLUSH_SECONDS = 2.0
OWNER = "replica "
"""How the owner of a replica's instances begins."""


class SharedChild:
    """Decides for its own child from its start to its end, on what all replicas want. A Deciding, and the Duties of its
    membership: the leader alone changes what is wanted, says what became of versions, and drives transitions."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        access = stage.access
        self._observations = ReplicaObservations(access.registry, access.recorder)
        access.observations = self._observations
        self._link = ReplicaLink(stage, self)
        child = Child(f"{EMBEDDED}@{self._link.name}", _owner(self._link.name))
        control = ControlParts(stage.inputs, stage.state, access, stage.executors)
        self.term = Term(stage.inputs, control, access, stage.mirrors, stage.serving, stage.mesh, child=child)
        plane = self.term.plane
        self.view: RoutesView = connected_view(plane)
        self.control: Control = plane
        self.routers: Routers = plane.leases
        plane.publisher.subscribe(self._published)
        self.term.add_instances(stage.triton, stage.parts)
        collector = ReplicaCollector(StateCollector(plane, access.recorder, access.registry), lambda: self._leads)
        shown: list[Collector] = [stage.guard.denials.metric, *([stage.mesh] if self.term.mesh is not None else [])]
        self.gauges = Meters(Metrics(collector, *shown), stage.serving, stage.mesh)
        self._changes = Changes(self._refresh)
        self._live: LiveTracker | None = None
        self._fenced: Registry | None = None
        self._dead: set[str] = set()
        self._beaten = 0.0
        self._leads = False
        self._started = False
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._path: RequestPath | None = None

    @classmethod
    async def open(cls, stage: Stage) -> Self:
        """Learn what this replica and the others left. Raises BridgeError."""
        access = stage.access
        access.owner = _owner(replica_name(stage.inputs.settings, stage.state))
        await access.learn()
        await access.thread.call(access.registry.end_of_owner, access.owner, STARTER)
        return cls(stage)

    # Deciding

    async def start(self, path: RequestPath) -> None:
        stage, access = self._stage, self._stage.access
        self._path = path
        stage.parts.spawn(access.recorder.run(), "recorder")
        stage.parts.on_close(lambda: access.record_end(stage.cause()))
        stage.guard.start(stage.parts)
        await self._link.open(self._hear, self._catch_up, lambda: self.view.routes.epoch)
        await self._link.join()
        if self._link.membership.leads:
            await self._begun
        await self.term.start(stage.parts, drive=self._leads)
        self._started = True
        stage.parts.spawn(self._changes.run(), "changes of the other bridges")
        self._link.start()

    def admin(self) -> ASGIApp:
        return self._link.switchboard.admin(self._own_admin(), local_only=self._stage.ports.admin_is_local)

    async def load_first(self, *, models_first: bool) -> None:
        await load_first(self.term, self._stage, models_first=models_first, register=self._leads)

    def management(self) -> Management:
        own = self._own_management()
        return Management(self._link.switchboard.rpcs(rpc_names(self._stage.inputs.settings)), own.page)

    async def settled(self) -> None:
        await self.term.plane.wait_settled()

    # Duties

    async def lead(self, lease: Lease, authority: Authority) -> None:
        registry = self._stage.access.registry.fenced(lease)
        office = Office(self._own_management().rpcs, self._own_admin())
        try:
            await self._take_over(registry)
            self._link.switchboard.open(office)
            if not self._begun.done():
                self._begun.set_result(None)
            await asyncio.Event().wait()
        except BridgeError as error:
            if self._begun.done():
                raise
            self._begun.set_exception(error)
        finally:
            self._leads, self._live, self._fenced = False, None, None
            self._link.switchboard.close()
            office.close()
            self._observations.lead(None)
            if self.term.mesh is not None:
                await self.term.mesh.rest()
            await self._end(registry, authority)

    async def beaten(self, pulse: Pulse, started: float) -> None:
        silent, self._beaten = started - self._beaten, started
        if self._started and silent > self._link.times.router_lease:
            self._tell_own()
        if self._fenced is not None:
            await self._tell_dead(self._fenced)

    def _tell_own(self) -> None:
        """This replica was silent for so long that the leader may have taken it for dead."""
        fleet = self.term.plane.fleet
        for name, controller in fleet.controllers.items():
            self._observations.instance(name, controller.up, controller.reason)
            for servable in (fleet.servables().get(triton_name) for triton_name in controller.loaded):
                if servable is not None:
                    self._observations.copy_loaded(name, servable)

    async def _tell_dead(self, fenced: Registry) -> None:
        """Say of replicas that ended without a word what they cannot say themselves."""
        living, instances = await self._living(), await self._link.thread.call(self._stage.access.registry.instances)
        known = {item.owner for item in instances if item.state is not InstanceState.UNKNOWN}
        self._dead &= known
        for owner in {owner for owner in known if owner.startswith(OWNER)} - living - self._dead:
            self._dead.add(owner)
            self._stage.access.recorder.record(fenced.end_of_owner, owner, STARTER)

    def progress(self) -> Sequence[tuple[str, int]]:
        return ()

    async def _take_over(self, registry: Registry) -> None:
        """Say what became of versions from now on, first how they are now."""
        access, plane = self._stage.access, self.term.plane
        recorder = access.recorder
        backoff = Backoff(0.1, 1.0)
        live = LiveTracker(registry, recorder)
        while True:
            try:
                await access.thread.call(registry.end_of_leader, await self._living(), STARTER)
                await live.learn(access.thread)
                break
            except Unavailable as error:
                if not self._begun.done():
                    raise
                logger.warning("the leadership waits for the database: %s", error.message)
                await asyncio.sleep(backoff.pause())
        self._leads, self._live, self._fenced = True, live, registry
        self._observations.lead(registry)
        if self._started:
            plane.tell_all()
            self._published(plane.publisher.routes)
            if self.term.mesh is not None:
                self.term.mesh.drive()

    async def _end(self, registry: Registry, authority: Authority) -> None:
        """The last words of a leader that still is one."""
        if authority.held:
            recorder = self._stage.access.recorder
            recorder.record(registry.end_of_leader, await self._living() - {self._stage.access.owner}, STARTER)
            await recorder.flush(FLUSH_SECONDS)

    async def _living(self) -> set[str]:
        access = self._stage.access
        replicas = await self._link.thread.call(access.registry.replicas)
        return {access.owner, *(_owner(replica.name) for replica in replicas)}

    def _published(self, routes: Routes) -> None:
        if self._live is not None:
            self._live.follow(routes)

    # The others

    def _hear(self, word: str, content: Any) -> None:
        if word == notices.LEADER:
            self._link.membership.kick()
        elif word == notices.WANTED and content != self._link.name:
            self._changes.told()

    async def _refresh(self) -> None:
        await self.term.configurator.refresh()
        if self.term.mesh is not None:
            await self.term.mesh.refresh()

    async def _catch_up(self, epoch: int) -> None:
        """The leader made a change: have it hold here before its caller hears of it."""
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self._changes.read()
                await self.term.plane.wait_settled()
        except (TimeoutError, BridgeError) as error:
            logger.debug("what the leader changed does not hold here yet: %s", error)

    def _own_admin(self) -> ASGIApp:
        stage, term = self._stage, self.term
        health = Health(term.plane, stage.access.registry, stage.access.thread)
        return stage.ports.admin_app(term.operations(), term.modelmesh_operations(), health, self.gauges.own)

    def _own_management(self) -> Management:
        assert self._path is not None
        return management(self._stage.inputs, self.term.configurator, self.term.mesh, self._path, self.gauges)


def _owner(replica: str) -> str:
    """Whose the instances of a replica are."""
    return f"{OWNER}{replica}"
