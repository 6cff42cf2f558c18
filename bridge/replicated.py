"""A bridge among several on one database whose Tritons are remote: the leader decides, every replica serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from bridge.client_parts import Management
from bridge.deciding import load_first
from bridge.errors import BridgeError, Unavailable
from bridge.lifecycle.backoff import Backoff
from bridge.lifecycle.configurator import Configurator
from bridge.lifecycle.operations import Operations
from bridge.management import rpc_names
from bridge.modelmesh.operations import ModelMeshOperations
from bridge.registry import notices
from bridge.registry.records import Lease, Pulse
from bridge.replica_link import ReplicaLink
from bridge.replica_term import ReplicaTerm
from bridge.replicas.authority import Authority
from bridge.replicas.gauges import FollowerCollector, ReplicaCollector
from bridge.replicas.readiness import FollowerReadiness
from bridge.replicas.relay import ControlRelay
from bridge.replicas.routes_reader import RoutesReader
from bridge.request_parts import Meters, RequestPath
from bridge.serving.control import Control, Routers, RoutesView
from bridge.stage import Stage
from bridge.telemetry.metrics import Metrics
from bridge.tfserving.batching_metrics import BatchingMetrics

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
CATCH_UP_SECONDS = 2.0
"""How long a change that the leader made may take to reach this replica before its caller hears of it."""


class Replicated:
    """Serves by the leader's snapshots; leads while nobody else does. A Deciding, and the Duties of its membership."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._link = ReplicaLink(stage, self)
        name, registry, thread = self._link.name, stage.access.registry, self._link.thread
        self.view = RoutesView(name)
        self._reader = RoutesReader(registry, thread, self.view)
        self._relay = ControlRelay(registry, thread, self._link.progress)
        self.control: Control = self._relay
        self.routers: Routers = self._link.progress
        state = FollowerCollector(self.view, lambda: self._term.collector if self._term is not None else None)
        collector = ReplicaCollector(state, lambda: self._term is not None)
        shown: list[Collector] = [stage.guard.denials.metric, *([stage.mesh] if self._modelmesh else [])]
        self.gauges = Meters(Metrics(collector, *shown), stage.serving, stage.mesh)
        self._term: ReplicaTerm | None = None
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._path: RequestPath | None = None
        self._files: asyncio.Task[None] | None = None

    # Deciding

    async def start(self, path: RequestPath) -> None:
        stage, access = self._stage, self._stage.access
        self._path = path
        stage.parts.spawn(access.recorder.run(), "recorder")
        stage.parts.on_close(lambda: access.record_end(stage.cause()))
        stage.guard.start(stage.parts)
        self.view.connect(self._link.progress.drained)
        self.view.freshness.renew_by(self._renew)
        await self._link.open(self._hear, self._catch_up, lambda: self.view.routes.epoch)
        for work, name in (
            (self._link.progress.run(), "progress of routers"),
            (self._reader.run(), "published routes"),
            (self._relay.run(), "relay to the leader"),
        ):
            stage.parts.spawn(work, name)
        await self._link.join()
        if self._link.membership.leads:
            await self._begun
        else:
            await self._configurator().start()
            self._follow_files()
        stage.parts.on_close(self._stop_files)
        self._link.start()

    def admin(self) -> ASGIApp:
        stage, access = self._stage, self._stage.access
        own = stage.ports.admin_app(
            Operations(access.registry, access.thread),
            ModelMeshOperations(access.registry, access.thread),
            FollowerReadiness(self.view, access.registry, access.thread),
            self.gauges.own,
        )
        return self._link.switchboard.admin(own, local_only=stage.ports.admin_is_local)

    async def load_first(self, *, models_first: bool) -> None:
        if self._term is not None:
            await load_first(self._term.term, self._stage, models_first=models_first)
        elif models_first:
            await self.settled()

    def management(self) -> Management:
        assert self._path is not None
        batches = BatchingMetrics(
            self._path.runners if self._stage.inputs.bundle.batching else None, self._stage.serving
        )
        return Management(self._link.switchboard.rpcs(rpc_names(self._stage.inputs.settings)), batches.page)

    async def settled(self) -> None:
        while not (self._term.term.plane.settled if self._term is not None else self.view.routes.configured):
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self.view.changed()
            except TimeoutError:
                pass

    # Duties

    async def lead(self, lease: Lease, authority: Authority) -> None:
        assert self._path is not None
        await self._stop_files()
        term = ReplicaTerm(self._stage, self._link, self.view, self._path, self.gauges, lease, authority)
        try:
            await self._take_over(term)
            self._term, self._relay.plane = term, term.term.plane
            self._link.switchboard.open(term.office)
            if not self._begun.done():
                self._begun.set_result(None)
            await term.failed()
        except BridgeError as error:
            if self._begun.done():
                raise
            self._begun.set_exception(error)
        finally:
            self._term = self._relay.plane = None
            self._link.switchboard.close()
            await term.close()
            self._follow_files()

    async def beaten(self, pulse: Pulse, started: float) -> None:
        self.view.freshness.extend(started + self._link.times.router_lease)
        if self._term is not None:
            await self._term.read_routers()
        else:
            self._reader.look(pulse.epoch)

    def progress(self) -> Sequence[tuple[str, int]]:
        return self._link.progress.known()

    async def _take_over(self, term: ReplicaTerm) -> None:
        """Begin to decide; serve by the last leader's snapshot until the own one has everything that is in it."""
        backoff = Backoff(0.1, 1.0)
        while True:
            try:
                await self._reader.refresh()
                return await term.start()
            except Unavailable as error:
                if not self._begun.done():
                    raise
                logger.warning("the leadership waits for the database: %s", error.message)
                await term.close()
                await asyncio.sleep(backoff.pause())

    @property
    def _modelmesh(self) -> bool:
        return bool(self._stage.inputs.settings.modelmesh_port)

    # Following

    def _hear(self, word: str, content: Any) -> None:
        term = self._term
        if word == notices.ROUTES and term is None:
            self._reader.look(content)
        elif word == notices.LOST and term is None:
            self.view.lose(*content)
        elif word == notices.LEADER:
            self._link.membership.kick()
        elif term is not None:
            term.hear(word, content)
            self._relay.hear(word, content)

    async def _renew(self) -> None:
        """This replica was silent for so long that nobody waits for its routers any more."""
        if await self._link.membership.beat() and not self._link.membership.leads:
            await self._reader.refresh()

    async def _catch_up(self, epoch: int) -> None:
        self._reader.look(epoch)
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while self.view.routes.epoch < epoch:
                    await self.view.changed()
        except TimeoutError:
            logger.debug("snapshot %d is not here yet", epoch)

    def _configurator(self) -> Configurator:
        access = self._stage.access
        return Configurator(self._stage.inputs.settings, access.registry, access.thread, None)

    def _follow_files(self) -> None:
        """Offer what this replica's file says, whoever leads."""
        self._files = asyncio.create_task(self._offer(), name="configuration file")

    async def _stop_files(self) -> None:
        files, self._files = self._files, None
        if files is not None:
            files.cancel()
            await asyncio.gather(files, return_exceptions=True)

    async def _offer(self) -> None:
        configurator, backoff = self._configurator(), Backoff(0.5, 10.0)
        while True:
            try:
                await configurator.start()
                break
            except BridgeError as error:
                logger.debug("the configuration of this replica is not offered: %s", error.message)
                await asyncio.sleep(backoff.pause())
        await configurator.poll()
