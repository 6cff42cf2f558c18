"""Time as placement sees it: milliseconds, and sleeping by the same clock, so that tests can drive both."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits by it."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    async def sleep(self, milliseconds: int) -> None:
        """Return when that much time has passed."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)
