"""One bridge among several: it says that it lives, leads when nobody else does, and steps down when another does."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.errors import BridgeError, FailedPrecondition, Unavailable
from bridge.lifecycle.backoff import Backoff
from bridge.registry.records import Actor, Lease, Pulse, Replica
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.replicas.authority import Authority

logger = logging.getLogger(__name__)

ELECTION = Actor("bridge", "election")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: how long the leadership and a router's lease last unless renewed, and how often both are."""

    leader_lease: float = 5.0
    router_lease: float = 10.0
    beat: float = 1.0


class Duties(Protocol):
    """What a replica does by its role."""

    async def lead(self, lease: Lease, authority: Authority) -> None:
        """Lead until cancelled. Returning or raising gives the leadership back."""

    async def beaten(self, pulse: Pulse, started: float) -> None:
        """The database knows since `started`, a time of the monotonic clock, that this replica lives."""

    def progress(self) -> Sequence[tuple[str, int]]:
        """The drained epoch of each router of this replica."""


class Membership:
    """Used on one event loop. Its calls of the registry are made on a `thread` of their own: nothing holds them up."""

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        replica: Replica,
        duties: Duties,
        times: Times | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.replica = replica
        self.pulse: Pulse | None = None
        """What was seen of the others last."""
        self._registry = registry
        self._thread = thread
        self._duties = duties
        self._times = times or Times()
        self._clock = clock
        self._authority = Authority(clock)
        self._lease: Lease | None = None
        self._term: asyncio.Task[None] | None = None
        self._resignation: asyncio.Task[None] | None = None
        self._kick = asyncio.Event()
        self._beating = asyncio.Lock()
        self._not_before = -math.inf
        self._away = False
        self._backoff = Backoff(1.0, 60.0)

    @property
    def leads(self) -> bool:
        """Whether this replica is the leader as far as it knows; it may have to renew that before it decides."""
        return self._term is not None

    def kick(self) -> None:
        """Something may have moved: look now."""
        self._kick.set()

    async def join(self) -> None:
        """Say for the first time that this replica lives, and lead if nobody does. Raises Unavailable."""
        await self._beat()

    async def run(self) -> None:
        """Go on with that until cancelled."""
        while True:
            self._kick.clear()
            try:
                await self.beat()
            except Exception:
                logger.exception("a beat of replica %s failed", self.replica.name)
            try:
                async with asyncio.timeout(self._times.beat):
                    await self._kick.wait()
            except TimeoutError:
                pass

    async def beat(self) -> bool:
        """One beat, now; False while the database is away."""
        try:
            await self._beat()
        except Unavailable as error:
            logger.debug("replica %s cannot reach the database: %s", self.replica.name, error.message)
            self._away = True
            return False
        return True

    async def leave(self) -> None:
        """End the term and let the others know that this replica ends."""
        lease = self._lease
        await self._end_term()
        try:
            async with asyncio.timeout(self._times.leader_lease):
                if lease is not None:
                    await self._thread.call(self._registry.release_lease, lease, ELECTION)
                await self._thread.call(self._registry.leave, self.replica.name)
        except (BridgeError, TimeoutError) as error:
            logger.warning("replica %s could not sign off: %s", self.replica.name, error)

    async def _beat(self) -> None:
        async with self._beating:
            if self._lease is not None:
                await self._renew(self._lease)
            started = self._clock()
            pulse = await self._thread.call(
                self._registry.beat, self.replica, self._duties.progress(), self._times.router_lease
            )
            self.pulse = pulse
            self._returned(started)
            await self._duties.beaten(pulse, started)
            if self._lease is None and not pulse.led and self._clock() >= self._not_before:
                await self._stand()

    def _returned(self, now: float) -> None:
        """Whoever led before the database was away shall go on, so the others wait for a moment."""
        if self._away and self._lease is None:
            self._not_before = now + self._times.leader_lease
        self._away = False

    async def _renew(self, lease: Lease) -> None:
        started = self._clock()
        try:
            self._lease = await self._thread.call(self._registry.renew_lease, lease, self._times.leader_lease, ELECTION)
        except FailedPrecondition as error:
            logger.warning("replica %s steps down: %s", self.replica.name, error.message)
            await self._step_down()
        else:
            self._authority.extend(started + self._times.leader_lease)

    async def _stand(self) -> None:
        """Take the leadership if it still is free."""
        started = self._clock()
        lease = await self._thread.call(
            self._registry.acquire_lease, self.replica.name, self._times.leader_lease, ELECTION
        )
        if lease is None:
            return
        logger.info("replica %s leads (fencing number %d)", self.replica.name, lease.fence)
        self._lease = lease
        self._authority = Authority(self._clock)
        self._authority.extend(started + self._times.leader_lease)
        self._term = asyncio.create_task(self._duties.lead(lease, self._authority), name="term of the leader")
        self._term.add_done_callback(self._ended)

    async def _step_down(self) -> None:
        self._authority.end()
        await self._end_term()

    async def _end_term(self) -> None:
        term, self._term, self._lease = self._term, None, None
        if term is not None:
            term.cancel()
            await asyncio.gather(term, return_exceptions=True)

    def _ended(self, term: asyncio.Task[None]) -> None:
        """A term that ends by itself failed: another replica may do better."""
        if term is not self._term:
            return
        error = None if term.cancelled() else term.exception()
        logger.error("replica %s cannot lead", self.replica.name, exc_info=error)
        lease, self._term, self._lease = self._lease, None, None
        self._authority.end()
        self._not_before = self._clock() + self._backoff.pause()
        if lease is not None:
            self._resignation = asyncio.create_task(self._resign(lease))

    async def _resign(self, lease: Lease) -> None:
        try:
            await self._thread.call(self._registry.release_lease, lease, ELECTION)
        except BridgeError as error:
            logger.warning("replica %s could not give the leadership back: %s", self.replica.name, error.message)
