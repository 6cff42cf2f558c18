"""The time in which one replica leads: everything that decides, built for it and taken down after it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from bridge.console.health import Health
from bridge.control_parts import ControlParts
from bridge.errors import Internal
from bridge.lifecycle.configurator import STARTER
from bridge.lifecycle.recorder import Recorder
from bridge.management import management
from bridge.parts import Parts
from bridge.registry import notices
from bridge.registry.records import Lease
from bridge.registry.registry import Registry
from bridge.replica_link import ReplicaLink
from bridge.replicas.authority import Authority
from bridge.replicas.changes import Changes
from bridge.replicas.handover import Handover
from bridge.replicas.offices import Office
from bridge.replicas.routes_writer import RoutesWriter
from bridge.request_parts import Meters, RequestPath
from bridge.serving.control import RoutesView
from bridge.serving.routes import Routes
from bridge.stage import Stage
from bridge.telemetry.state import StateCollector
from bridge.term import Term

logger = logging.getLogger(__name__)

EPOCH_BITS = 32
"""A term's epochs begin at its fencing number, shifted by so many bits: past those of every earlier leader."""

FLUSH_SECONDS = 2.0


class ReplicaTerm:
    """Everything is written by a registry that refuses once `lease` is another's; `authority` says whether it still
    holds."""

    def __init__(
        self,
        stage: Stage,
        link: ReplicaLink,
        view: RoutesView,
        path: RequestPath,
        gauges: Meters,
        lease: Lease,
        authority: Authority,
    ) -> None:
        self._stage = stage
        self._link = link
        self._view = view
        self._path = path
        self._gauges = gauges
        self._lease = lease
        self._authority = authority
        self._failure = asyncio.Event()
        self._parts = Parts(self._failed)
        self._known: dict[str, tuple[int, int]] = {}

    async def start(self) -> None:
        """Take over. Raises BridgeError."""
        stage, parts = self._stage, self._parts
        registry = stage.access.registry.fenced(self._lease)
        access = stage.access.led(registry)
        await access.take_over()
        last = self._view.routes
        for model in last.models.values():
            access.served.setdefault(model.name, set()).update(model.servables)
        control = ControlParts(stage.inputs, stage.state, access, stage.executors)
        permission = self._authority.wait
        self.term = Term(stage.inputs, control, access, stage.mirrors, stage.serving, stage.mesh, permission=permission)
        plane = self.term.plane
        self.collector = StateCollector(plane, access.recorder, registry)
        plane.publisher.begin_at(self._lease.fence << EPOCH_BITS)
        await self.read_routers()
        self._writer = RoutesWriter(registry, self._link.thread)
        handover = Handover(last, self._is_up, self._publish)
        plane.publisher.subscribe(handover.publish)
        plane.spare(handover.serves)
        plane.on_lost(self._view.lose)
        plane.on_lost(lambda name, instance: access.recorder.record(registry.notify, notices.LOST, [name, instance]))
        self._link.progress.lead(plane.leases)
        parts.on_close_call(lambda: self._link.progress.lead(None))
        self.term.add_instances(None, parts)
        parts.spawn(access.recorder.run(), "recorder of the term")
        parts.on_close(lambda: self._end(access.recorder, registry))
        parts.spawn(self._writer.run(), "publication of routes")
        parts.spawn(self._hand_over(handover), "handover")
        await self.term.start(parts)
        self._changes = Changes(self.term.configurator.refresh)
        parts.spawn(self._changes.run(), "changes of other replicas")
        managing = management(stage.inputs, self.term.configurator, self.term.mesh, self._path, self._gauges)
        health = Health(plane, registry, access.thread)
        operations, vmodels = self.term.operations(), self.term.modelmesh_operations()
        self.office = Office(managing.rpcs, stage.ports.admin_app(operations, vmodels, health, self._gauges.own))
        parts.on_close_call(self.office.close)

    async def failed(self) -> None:
        """Wait until some part fails. Raises Internal then."""
        await self._failure.wait()
        raise Internal("a part of the leader failed; the log says more")

    async def close(self) -> None:
        """Decide nothing more."""
        await self._parts.close()

    def hear(self, word: str, content: Any) -> None:
        """A notice of another replica."""
        if word == notices.DRAINED and not self._link.progress.owns(content[0]):
            self.term.plane.drained(*content)
        elif word == notices.WANTED and content != self._link.name:
            self._changes.told()

    async def read_routers(self) -> None:
        """Hear of the routers whose notices were missed. One that tells nothing new is left to its lease."""
        found = await self._link.thread.call(self._stage.access.registry.routers)
        for router in found:
            told = (router.epoch, router.expires_at)
            if not self._link.progress.owns(router.name) and self._known.get(router.name) != told:
                self.term.plane.drained(router.name, router.epoch)
            self._known[router.name] = told

    def _publish(self, routes: Routes) -> None:
        self._view.publish(routes)
        self._writer.publish(routes)
        self.term.live.follow(routes)

    def _is_up(self, instance: str) -> bool:
        controller = self.term.plane.fleet.controllers.get(instance)
        return controller is not None and controller.up

    async def _hand_over(self, handover: Handover) -> None:
        """Spare what routers may still use until all of them serve by this leader's snapshots."""
        await handover.ended()
        await self.term.plane.leases.wait_drained(handover.first_epoch)
        handover.release()

    async def _end(self, recorder: Recorder, registry: Registry) -> None:
        """The last words of a leader that still is one."""
        if self._authority.held:
            recorder.record(registry.end_of_process, STARTER)
            await recorder.flush(FLUSH_SECONDS)

    def _failed(self, name: str) -> None:
        logger.error("%s of the leader failed", name)
        self._failure.set()
