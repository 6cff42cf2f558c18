"""Tells the leader how far this replica's routers are, as soon as they move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from bridge.errors import BridgeError
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

logger = logging.getLogger(__name__)

Drained = Callable[[str, int], None]


class RouterProgress:
    """Drained epochs of the routers in this replica. While this replica leads itself, `local` hears of them instead."""

    def __init__(self, registry: Registry, thread: RegistryThread, replica: str, lease_seconds: float) -> None:
        self.local: Drained | None = None
        self._registry = registry
        self._thread = thread
        self._replica = replica
        self._lease_seconds = lease_seconds
        self._epochs: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._moved = asyncio.Event()

    def drained(self, router: str, epoch: int) -> None:
        """Router `router` holds no request that was routed by a snapshot older than `epoch`."""
        self._epochs[router] = epoch
        if self.local is not None:
            self.local(router, epoch)
        else:
            self._moved.set()

    def lead(self, local: Drained | None) -> None:
        """Tell `local` from now on, first what is known; None tells the database again."""
        self.local = local
        for router, epoch in self._epochs.items():
            self.drained(router, epoch)

    def known(self) -> Sequence[tuple[str, int]]:
        """(router, epoch) of each."""
        return sorted(self._epochs.items())

    async def run(self) -> None:
        """Write each move until cancelled. One that cannot be written goes with the next beat."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            for router, epoch in self.known():
                if epoch > self._told.get(router, -1):
                    await self._tell(router, epoch)

    async def _tell(self, router: str, epoch: int) -> None:
        try:
            await self._thread.call(self._registry.drain, router, self._replica, epoch, self._lease_seconds)
        except BridgeError as error:
            logger.debug("the progress of router %s is not written: %s", router, error.message)
        else:
            self._told[router] = epoch
