"""Whether this process may decide now."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

LONGEST_NAP = 0.25
"""Seconds between two looks at the clock of somebody who waits: the process may have been stopped meanwhile."""


class Authority:
    """The leader's lease by this process's own clock, which goes on while the process is stopped.

    It ends earlier than the lease in the database, because it is counted from before the call that renewed that. So
    whoever asks here just before acting on a Triton acts while nobody else does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = -math.inf
        self._extended = asyncio.Event()

    @property
    def held(self) -> bool:
        return self._clock() < self._until

    def extend(self, until: float) -> None:
        """The lease was renewed: it holds until that time of the clock."""
        self._until = until
        extended, self._extended = self._extended, asyncio.Event()
        extended.set()

    def end(self) -> None:
        """The lease is another's, or was given back."""
        self._until = -math.inf

    async def wait(self) -> None:
        """Return while this process may decide; for ever if it never may again, until cancelled."""
        while not self.held:
            try:
                async with asyncio.timeout(LONGEST_NAP):
                    await self._extended.wait()
            except TimeoutError:
                pass
