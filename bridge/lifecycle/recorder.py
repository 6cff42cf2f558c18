"""Writes what the control plane observed to the registry, in order, without making anybody wait for the database."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from bridge.errors import FailedPrecondition, Unavailable
from bridge.lifecycle.backoff import Backoff

logger = logging.getLogger(__name__)

Call = Callable[..., Awaitable[Any]]


class Recorder:
    """An ordered queue of registry calls. While the database is away they wait; nothing is dropped or reordered.

    `call` runs one registry function on the writer thread (`RegistryThread.call`).
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self._added = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def backlog(self) -> int:
        """Changes that wait to be written."""
        return len(self._waiting)

    def record(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Have `function` of the registry run after all recorded before it."""
        self._waiting.append((function, args, kwargs))
        self._idle.clear()
        self._added.set()

    async def run(self) -> None:
        """Write until cancelled."""
        backoff = Backoff()
        while True:
            while not self._waiting:
                self._idle.set()
                self._added.clear()
                await self._added.wait()
            if await self._write_first():
                backoff.reset()
            else:
                await asyncio.sleep(backoff.pause())

    async def flush(self, timeout: float) -> bool:
        """Wait until everything recorded so far is written; False when `timeout` seconds did not suffice."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _write_first(self) -> bool:
        function, args, kwargs = self._waiting[0]
        try:
            await self._call(function, *args, **kwargs)
        except Unavailable as error:
            logger.warning("the registry is away, %d changes wait: %s", len(self._waiting), error)
            return False
        except FailedPrecondition as error:
            logger.warning("%s is not written: %s", getattr(function, "__name__", function), error)
        except Exception:
            logger.exception("the registry refused %s%r", getattr(function, "__name__", function), args)
        self._waiting.popleft()
        return True
