"""The lease of a replica, handed on to its workers: they must not route by a snapshot that nobody keeps alive for them.

The control process sends `fresh`, until when its lease lasts by the machine's monotonic clock, which all processes
share. A worker whose lease is over sends `renew` (a number) and hears `renewed` ([number, epoch]): the snapshot to
have.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Callable, Mapping

from bridge.serving.control import RoutesView
from bridge.serving.lines import Lines
from bridge.serving.link import Router, Word


class LeaseServer:
    """The control process' end. `routers` tells the workers of the moment; a try to renew takes `patience` seconds."""

    def __init__(self, view: RoutesView, routers: Callable[[], frozenset[Router]], patience: float) -> None:
        self._view = view
        self._routers = routers
        self._patience = patience
        self._until = math.inf
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Hand on the lease from now on."""
        self._view.freshness.on_extended(self._extended)

    @property
    def words(self) -> Mapping[str, Word]:
        """What to do with a worker's messages."""
        return {"renew": self._renew}

    def welcome(self, router: Router) -> None:
        """A worker is there."""
        if self._until < math.inf:
            _tell(router, self._until)

    def _extended(self, until: float) -> None:
        self._until = until
        for router in self._routers():
            _tell(router, until)

    def _renew(self, router: Router, document: bytes) -> None:
        task = asyncio.create_task(self._renewed(router, json.loads(document)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _renewed(self, router: Router, number: int) -> None:
        freshness = self._view.freshness
        if freshness.over:
            await freshness.renewed(self._patience)
        router.send("renewed", json.dumps([number, self._view.routes.epoch]).encode())


class LeaseClient:
    """A worker's end."""

    def __init__(self, view: RoutesView, lines: Lines) -> None:
        self._view = view
        self._lines = lines
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._counts = False

    @property
    def words(self) -> Mapping[str, Callable[[bytes], None]]:
        """What to do with messages of the control process."""
        return {"fresh": self._fresh, "renewed": self._renewed}

    def _fresh(self, document: bytes) -> None:
        if not self._counts:
            self._counts = True
            self._view.freshness.renew_by(self._renew)
        self._view.freshness.extend(json.loads(document))

    async def _renew(self) -> None:
        number = next(self._numbers)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._lines.send("renew", json.dumps(number).encode())
        try:
            epoch = await future
        finally:
            del self._waiting[number]
        while self._view.routes.epoch < epoch:
            await self._view.changed()

    def _renewed(self, document: bytes) -> None:
        number, epoch = json.loads(document)
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(epoch)


def _tell(router: Router, until: float) -> None:
    router.send_newest("fresh", lambda: json.dumps(until).encode())
