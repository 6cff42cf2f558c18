"""Which routers are alive and how far each has drained.

A servable is unloaded only when every live router has passed the epoch that dropped it and holds no request older than
that, or its lease is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


async def permitted() -> None:
    """Who is alone may always decide."""


@dataclass
class _Lease:
    epoch: int
    heard: float


class RouterLeases:
    """Drained epochs by router name. Used on one event loop."""

    def __init__(
        self,
        lease_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        permission: Callable[[], Awaitable[None]] = permitted,
    ) -> None:
        """`permission` returns while this process may decide that something is not needed any more."""
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._permission = permission
        self._leases: dict[str, _Lease] = {}
        self._permanent: set[str] = set()
        self._moved = asyncio.Event()

    def enlist(self, router: str, *, permanent: bool = False) -> None:
        """Wait for this router from now on. A permanent one lives in this process and never falls silent."""
        self._leases.setdefault(router, _Lease(0, self._clock()))
        if permanent:
            self._permanent.add(router)

    def drained(self, router: str, epoch: int) -> None:
        """Router `router` holds no request older than `epoch`. This renews its lease."""
        lease = self._leases.setdefault(router, _Lease(epoch, self._clock()))
        lease.epoch, lease.heard = epoch, self._clock()
        self._tell()

    def dismiss(self, router: str) -> None:
        """Router `router` is gone with all its requests: nobody waits for it any more."""
        self._leases.pop(router, None)
        self._tell()

    async def wait_drained(self, epoch: int) -> None:
        """Return when every live router has drained what is older than `epoch`."""
        while self._holding(epoch):
            moved = self._moved
            try:
                async with asyncio.timeout(self._lease_seconds / 4):
                    await moved.wait()
            except TimeoutError:
                self._expire()
        await self._permission()

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _holding(self, epoch: int) -> bool:
        return any(lease.epoch < epoch for lease in self._leases.values())

    def _expire(self) -> None:
        limit = self._clock() - self._lease_seconds
        for router, lease in list(self._leases.items()):
            if router not in self._permanent and lease.heard < limit:
                del self._leases[router]
