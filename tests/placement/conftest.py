from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from bridge.placement.settings import PlacementSettings
from tests.placement.fakes import World


@pytest.fixture
async def make_world() -> AsyncIterator[Callable[..., World]]:
    """Worlds that are closed, and looked through for what must never happen, when the test is over."""
    worlds: list[World] = []

    def make(settings: PlacementSettings | None = None, seed: int = 1) -> World:
        worlds.append(World(settings, seed))
        return worlds[-1]

    yield make
    for world in worlds:
        await world.close()
        assert world.faults() == []
