"""What a server has started, undone in reverse order at its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Parts:
    """Tasks that run until the end, and what closes the rest. `on_failure` is told the name of a task that failed."""

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure
        self._closers: list[Callable[[], Awaitable[None]]] = []

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Await `close` at the end."""
        self._closers.append(close)

    def on_close_call(self, close: Callable[[], None]) -> None:
        """Call `close`, which does not wait for anything, at the end."""

        async def run() -> None:
            close()

        self._closers.append(run)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` beside everything else; it is cancelled at the end."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)

        async def cancel() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._closers.append(cancel)

    async def close(self) -> None:
        """Undo everything; a part that fails to close does not keep the others open."""
        while self._closers:
            try:
                await self._closers.pop()()
            except Exception:
                logger.exception("closing a part of the server failed")

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
            self._on_failure(task.get_name())
