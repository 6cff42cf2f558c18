"""Gives memory back to the system after large messages.

The allocator of the C library keeps what many threads freed in pieces: without this, a server that was sent tens of
megabytes at a time holds some hundred megabytes more, for ever.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

LARGE = 8 << 20
"""Bytes of a message that is worth a look afterwards."""
PAUSE = 1.0
"""Seconds between a large message and the trimming: what the message took is free by then, and a stream of large
messages costs one trimming a second."""


def trim() -> None:
    """Give back what is free, where the C library can (glibc does): milliseconds, without the interpreter's lock."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if function is not None:
        function(0)


class MemoryTrimmer:
    """Trims some time after large messages. Used on one event loop."""

    def __init__(self, trim: Callable[[], object] = trim, pause: float = PAUSE) -> None:
        self._trim = trim
        self._pause = pause
        self._timer: asyncio.TimerHandle | None = None
        self._again = False

    def used(self, size: int) -> None:
        """A message of `size` bytes has passed."""
        if size < LARGE:
            return
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._due)
        else:
            self._again = True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, self._trim)
        self._timer = loop.call_later(self._pause, self._due) if self._again else None
        self._again = False
