from __future__ import annotations

import asyncio

import pytest

from bridge.memory import LARGE, MemoryTrimmer, keep_large_buffers_apart
from model_repo_sync.runner.tensorflow_engine.allocator import trim


async def test_the_last_of_many_large_messages_is_followed_by_a_trimming() -> None:
    trimmed = asyncio.Queue[None]()
    loop = asyncio.get_running_loop()
    trimmer = MemoryTrimmer(lambda: loop.call_soon_threadsafe(trimmed.put_nowait, None), pause=0.01)
    trimmer.used(LARGE - 1)
    for _ in range(5):
        trimmer.used(LARGE)
    for _ in range(2):
        await asyncio.wait_for(trimmed.get(), 5)
    trimmer.used(LARGE)
    await asyncio.wait_for(trimmed.get(), 5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(trimmed.get(), 0.05)
    trimmer.close()


async def test_nothing_is_trimmed_after_the_end() -> None:
    trimmed: list[None] = []
    trimmer = MemoryTrimmer(lambda: trimmed.append(None), pause=0.0)
    trimmer.used(LARGE)
    trimmer.close()
    trimmer.close()
    await asyncio.sleep(0)
    assert not trimmed


def test_the_allocator_takes_the_calls_or_lacks_them() -> None:
    keep_large_buffers_apart()
    trim()
