"""For how long a router may take it that its snapshot is in use: until others may believe that the router is gone."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

Renew = Callable[[], Awaitable[None]]
"""Makes the router known again and its snapshot the newest one. Raises nothing; it may fail in silence."""

PAUSE = 1.0
"""Seconds for which a snapshot serves on when it could not be renewed: its database is away, so nothing changes."""


class Freshness:
    """A router's lease by its own clock, which goes on while the process is stopped.

    A router without others to hear from is always fresh. Used on one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = math.inf
        self._renew: Renew | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._on_extended: Callable[[float], None] | None = None

    def renew_by(self, renew: Renew) -> None:
        """Count from now on: each request past the end of the lease waits for `renew`."""
        self._renew = renew
        self._until = -math.inf

    def extend(self, until: float) -> None:
        """The lease lasts until that time of the clock."""
        self._until = until
        if self._on_extended is not None:
            self._on_extended(until)

    def on_extended(self, callback: Callable[[float], None]) -> None:
        """Tell `callback` until when the lease lasts, now if it counts already and whenever that changes."""
        self._on_extended = callback
        if self._until < math.inf:
            callback(self._until)

    @property
    def over(self) -> bool:
        """Whether a new request has to wait for `renewed` before it takes the snapshot."""
        return self._clock() >= self._until

    async def renewed(self, longest: float) -> None:
        """Wait for one try to renew, for at most `longest` seconds; requests that wait at a time share it."""
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._try())
        await asyncio.wait((self._renewing,), timeout=longest)

    async def _try(self) -> None:
        try:
            if self._renew is not None:
                await self._renew()
        except Exception:
            logger.exception("a router could not renew its snapshot")
        finally:
            self._until = max(self._until, self._clock() + PAUSE)
            self._renewing = None
