"""The two narrow interfaces between request path and control plane.

Snapshots go one way (`RoutesView`), the request path's needs go the other (`Control`). In one process the control
plane calls `RoutesView.publish` itself; in two, `bridge.serving.link` carries both over a socket.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from bridge.serving.freshness import Freshness
from bridge.serving.routes import EMPTY, Routes


class Control(Protocol):
    """What the request path may ask of the control plane. Every call returns at once and never raises."""

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        """A request met a dead runner, an unknown model or a lost instance: look at that copy now."""

    def drained(self, router: str, epoch: int) -> None:
        """Router `router` holds no request that was routed by a snapshot older than `epoch`."""

    def load_on_demand(self, model_id: str) -> None:
        """A request waits for a copy of this registered model.

        A later snapshot has a copy, or a LoadFailure with another number; a demand that is met already is none.
        """

    def used(self, model_id: str, count: int) -> None:
        """`count` more requests were sent to this registered model."""


class Routers(Protocol):
    """Told which routers come and go beside the one in this process; a snapshot is drained when all of them say so."""

    def enlist(self, router: str) -> None:
        """Wait for this router from now on."""

    def dismiss(self, router: str) -> None:
        """This router is gone with all its requests."""


class RoutesView:
    """The snapshot that a router uses now, with the epochs of its requests in flight.

    Used on one event loop only, so it needs no lock. A router takes the snapshot for a request by `enter` and gives it
    back by `leave`.

    What clients are told of states comes from `settled`, the newest snapshot that every router is known to use: who
    reads from one router that a version is available can have it from any other.
    """

    def __init__(self, router: str = "local") -> None:
        self.router = router
        self.freshness = Freshness()
        self.routes: Routes = EMPTY
        self.settled: Routes = EMPTY
        self._unsettled: deque[Routes] = deque()
        self._in_flight: Counter[int] = Counter()
        self._changed = asyncio.Event()
        self._first_settled = asyncio.Event()
        self._on_drained: Callable[[str, int], None] | None = None
        self._on_published: list[Callable[[Routes], None]] = []
        self._on_lost: list[Callable[[str, str], None]] = []

    def connect(self, on_drained: Callable[[str, int], None]) -> None:
        """Say whom to tell (router, epoch) each time the oldest epoch in flight moves."""
        self._on_drained = on_drained
        self._tell()

    def publish(self, routes: Routes, *, settled: bool = True) -> None:
        """Use `routes` from now on. Older epochs are ignored. `settled` is for the only router that there is."""
        if routes.epoch <= self.routes.epoch:
            return
        self.routes = routes
        if settled:
            self.settled = routes
            self._first_settled.set()
        else:
            self._unsettled.append(routes)
        self._changed.set()
        self._changed = asyncio.Event()
        for callback in self._on_published:
            callback(routes)
        self._tell()

    def settle(self, epoch: int) -> None:
        """Every router uses the snapshot of `epoch` or a newer one."""
        while self._unsettled and self._unsettled[0].epoch <= epoch:
            self.settled = self._unsettled.popleft()
        if self.settled is not EMPTY:
            self._first_settled.set()

    async def wait_settled(self) -> None:
        """Return once there is a settled snapshot."""
        await self._first_settled.wait()

    def on_published(self, callback: Callable[[Routes], None]) -> None:
        """Call `callback` with each snapshot that comes into use."""
        self._on_published.append(callback)

    def on_lost(self, callback: Callable[[str, str], None]) -> None:
        """Call `callback(triton_name, instance)` for each copy that is reported by `lose`."""
        self._on_lost.append(callback)

    def lose(self, triton_name: str, instance: str) -> None:
        """The process of that copy died: nothing that it was sent before will be answered.

        A snapshot without the copy does not say so, since a copy that is only given up finishes its requests first.
        """
        for callback in self._on_lost:
            callback(triton_name, instance)

    async def changed(self) -> None:
        """Wait for the next publication."""
        await self._changed.wait()

    def enter(self) -> Routes:
        """Take the snapshot for one request."""
        routes = self.routes
        self._in_flight[routes.epoch] += 1
        return routes

    def leave(self, routes: Routes) -> None:
        """The request that took `routes` is done with it."""
        epoch = routes.epoch
        self._in_flight[epoch] -= 1
        if self._in_flight[epoch] <= 0:
            del self._in_flight[epoch]
            if epoch != self.routes.epoch:
                self._tell()

    @property
    def in_flight(self) -> int:
        """Requests that hold a snapshot now."""
        return self._in_flight.total()

    def drained_epoch(self) -> int:
        """The oldest epoch that a request in flight uses, or the current one."""
        return min(self._in_flight, default=self.routes.epoch)

    def _tell(self) -> None:
        if self._on_drained is not None:
            self._on_drained(self.router, self.drained_epoch())
