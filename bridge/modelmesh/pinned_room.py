"""Pinned servables and registered models share the memory of instances: these make room for those."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor

from bridge.lifecycle.servable import Placeable
from bridge.placement.placement import Placement


class PinnedRoom:
    """The Room of a placement. A servable is expected to take what its files do, and a runner's usual size."""

    def __init__(self, placement: Placement, executor: Executor) -> None:
        self._placement = placement
        self._executor = executor

    async def take(self, instance: str, servable: Placeable) -> None:
        loop = asyncio.get_running_loop()
        files = await loop.run_in_executor(self._executor, bytes_below, servable.source)
        size = self._placement.settings.default_size + files
        await self._placement.pin(instance, servable.triton_name, size, str(servable))

    def measured(self, instance: str, triton_name: str, size: int) -> None:
        self._placement.resize_pinned(instance, triton_name, size)

    def give_back(self, instance: str, triton_name: str) -> None:
        self._placement.unpin(instance, triton_name)


def bytes_below(directory: str) -> int:
    """Bytes of the files in a directory, as far as they can be looked at."""
    return sum(_size(os.path.join(path, name)) for path, _, names in os.walk(directory) for name in names)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
