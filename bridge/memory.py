"""Gives memory back to the system after large messages.

The allocator of the C library keeps what many threads freed in pieces, and learns to keep buffers of up to 32 MB: left
to itself, a server that was sent tens of megabytes at a time holds some hundred megabytes more, for ever.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable

from model_repo_sync.runner.tensorflow_engine.allocator import trim

LARGE = 1 << 20
"""Bytes of a message that is worth a look afterwards."""
APART = 8 << 20
"""Bytes of a buffer that is a mapping of its own."""
PAUSE = 1.0
"""Seconds between a large message and the trimming: what the message took is free by then, and a stream of large
messages costs one trimming a second."""

KEPT = 64 << 20
"""Bytes that the top of the heap may have free: a stream of messages of some megabytes does not ask the system for
memory, page by page, each time. They go back with the trimming."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_large_buffers_apart() -> None:
    """From now on a large buffer is a mapping of its own, which goes back as soon as it is freed (glibc)."""
    function = getattr(ctypes.CDLL(None), "mallopt", None)
    if function is not None:
        function(_M_MMAP_THRESHOLD, APART)
        function(_M_TRIM_THRESHOLD, KEPT)


def settle() -> None:
    """Give back what only the start needed, and spare the garbage collector what stays for good."""
    gc.collect()
    gc.freeze()
    trim()


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
