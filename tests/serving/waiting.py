"""Waiting for a state with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Return once `condition` holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the state has no event of its own
            await asyncio.sleep(0.001)
