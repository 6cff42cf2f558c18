"""Work on large bodies, done on threads so that the event loop goes on answering."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LARGE = 1 << 20
"""Bytes from which a body is worth the way to a thread and back."""


class Offload:
    """A few threads; that few bodies are converted at a time, which bounds the memory that this takes."""

    def __init__(self, threads: int = 4) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="conversion")

    async def run(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of `function`, which works on `size` bytes: in place if they are few, else on a thread."""
        if size < LARGE:
            return function(*args, **kwargs)
        call = asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))
        return await call

    def close(self) -> None:
        """Wait for what runs, drop what waits."""
        self._threads.shutdown(cancel_futures=True)
