"""What others change on the same database, read soon after."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

TOGETHER_SECONDS = 0.1
"""Changes that come within this time are read together."""
PAUSE_SECONDS = 1.0
"""Until a failed reading is tried again."""


class Changes:
    """Calls each of `readings` after `told`, which many changes may share."""

    def __init__(self, *readings: Callable[[], Awaitable[None]]) -> None:
        self._readings = readings
        self._told = asyncio.Event()

    def told(self) -> None:
        """Something else is wanted."""
        self._told.set()

    async def read(self) -> None:
        """Read now. Raises BridgeError."""
        for reading in self._readings:
            await reading()

    async def run(self) -> None:
        """Read after each change until cancelled."""
        while True:
            await self._told.wait()
            await asyncio.sleep(TOGETHER_SECONDS)
            self._told.clear()
            try:
                await self.read()
            except Exception:
                logger.exception("reading what another bridge changed failed")
                self._told.set()
                await asyncio.sleep(PAUSE_SECONDS)
