"""Tells the leader how far this replica's routers are, as soon as they move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from bridge.errors import BridgeError
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

logger = logging.getLogger(__name__)


class LocalRouters(Protocol):
    """The leader's own view of routers."""

    def enlist(self, router: str, *, permanent: bool = False) -> None: ...

    def drained(self, router: str, epoch: int) -> None: ...

    def dismiss(self, router: str) -> None: ...


class RouterProgress:
    """Drained epochs of the routers in this replica. While this replica leads itself, `lead` says who hears of them."""

    def __init__(self, registry: Registry, thread: RegistryThread, replica: str, lease_seconds: float) -> None:
        self._local: LocalRouters | None = None
        self._registry = registry
        self._thread = thread
        self._replica = replica
        self._lease_seconds = lease_seconds
        self._epochs: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._moved = asyncio.Event()

    def enlist(self, router: str, *, permanent: bool = False) -> None:
        """Wait for this router from now on."""
        name = self._unique(router)
        self._epochs.setdefault(name, 0)
        if self._local is not None:
            self._local.enlist(name, permanent=permanent)

    def drained(self, router: str, epoch: int) -> None:
        """Router `router` holds no request that was routed by a snapshot older than `epoch`."""
        name = self._unique(router)
        self._epochs[name] = epoch
        if self._local is not None:
            self._local.drained(name, epoch)
        else:
            self._moved.set()

    def dismiss(self, router: str) -> None:
        """That router is gone with all its requests."""
        name = self._unique(router)
        self._epochs.pop(name, None)
        if self._local is not None:
            self._local.dismiss(name)

    def lead(self, local: LocalRouters | None) -> None:
        """Tell `local` from now on, first what is known; None tells the database again."""
        self._local = local
        if local is not None:
            local.enlist(self._replica, permanent=True)
        for router, epoch in self._epochs.items():
            self.drained(router, epoch)

    def known(self) -> Sequence[tuple[str, int]]:
        """(router, epoch) of each."""
        return sorted(self._epochs.items())

    def owns(self, router: str) -> bool:
        """Whether a router by that unique name is in this replica."""
        return router in self._epochs

    def _unique(self, router: str) -> str:
        """Routers of other replicas may be called the same."""
        own = router == self._replica or router.startswith(f"{self._replica}/")
        return router if own else f"{self._replica}/{router}"

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
