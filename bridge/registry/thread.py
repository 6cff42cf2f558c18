"""The registry for an event loop: one thread that makes all calls, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class RegistryThread:
    """Runs registry calls in order of `call`, so that what is recorded first is written first."""

    def __init__(self, name: str = "registry") -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function` on the thread; its errors are raised here.

        A cancelled call that has begun is finished nevertheless: its outcome is in the database.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(function, *args, **kwargs))

    def close(self) -> None:
        """Finish what was called and end the thread."""
        self._executor.shutdown()
