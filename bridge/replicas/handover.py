"""From one leader to the next: routers serve by the last snapshot until the new leader has found what is in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from bridge.serving.routes import ModelRoute, Routes, VersionState, VersionStatus

logger = logging.getLogger(__name__)

LONGEST_SECONDS = 15.0
"""After so long the new leader's snapshots are published whatever they lack: then it is lost."""

Sink = Callable[[Routes], None]


class Handover:
    """Holds a new leader's snapshots back until one confirms `last`, the snapshot that routers use.

    `is_up` tells whether an instance is. After that every snapshot goes to `sink` at once.
    """

    def __init__(self, last: Routes, is_up: Callable[[str], bool], sink: Sink) -> None:
        self._last = last
        self._is_up = is_up
        self._sink = sink
        self._newest: Routes | None = None
        self._over = asyncio.Event()
        self._released = False
        self.first_epoch = 0
        """The epoch of the first snapshot that was published, 0 before that."""
        if not last.epoch:
            self._over.set()

    def publish(self, routes: Routes) -> None:
        """Take a snapshot of the new leader's."""
        self._newest = routes
        if not self._over.is_set() and confirms(routes, self._last, self._is_up):
            logger.info("what served before is confirmed: snapshot %d follows on %d", routes.epoch, self._last.epoch)
            self._over.set()
        if self._over.is_set():
            self._give(routes)

    def serves(self, triton_name: str) -> bool:
        """Whether routers may still send requests there although the new leader does not want it."""
        return not self._released and triton_name in {item.triton_name for item in self._last.destinations()}

    async def ended(self) -> None:
        """Return once snapshots are published; what there is is, when that takes too long."""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await self._over.wait()
        except TimeoutError:
            logger.warning("some of what served before was not found again within %g s", LONGEST_SECONDS)
            self._over.set()
            if self._newest is not None:
                self._give(self._newest)

    def release(self) -> None:
        """No router uses the last leader's snapshot any more."""
        self._released = True

    def _give(self, routes: Routes) -> None:
        self.first_epoch = self.first_epoch or routes.epoch
        self._sink(routes)


def confirms(routes: Routes, last: Routes, is_up: Callable[[str], bool]) -> bool:
    """Whether `routes` has found or given up everything that serves by `last`."""
    if not routes.configured and last.configured:
        return False
    named = {name for item in last.destinations() for name in item.instances}
    if not all(is_up(name) for name in named if name in routes.instances):
        return False
    return all(_decided(routes.models, model) for model in last.models.values() if model.servables)


def _decided(models: Mapping[str, ModelRoute], last: ModelRoute) -> bool:
    """A model that left the configuration is not in the way; one that is there has to be read and to serve again."""
    model = models.get(last.name)
    if model is None or not model.configured:
        return True
    if (
        model.unread
        or model.awaited
        or any(item.version in last.servables and _coming(item) for item in model.statuses)
    ):
        return False
    return all(model.servables[version].instances for version in last.servables if version in model.servables)


def _coming(status: VersionStatus) -> bool:
    return status.state in (VersionState.UNKNOWN, VersionState.START, VersionState.LOADING)
