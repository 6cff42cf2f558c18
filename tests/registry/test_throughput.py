"""How many changes with their events PostgreSQL takes, fenced as a leader makes them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bridge.registry import Actor, ModelSpec, Owner, Registry

pytestmark = [pytest.mark.integration, pytest.mark.slow]

CHANGES = 2000
WANTED_PER_SECOND = 200


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_two_hundred_changes_per_second(open_registry: Callable[..., Registry], actor: Actor) -> None:
    registry = open_registry()
    lease = registry.acquire_lease("a", 600, actor)
    assert lease is not None
    leader = registry.fenced(lease)
    leader.put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)
    before = len(leader.events(limit=10))
    started = time.monotonic()
    for number in range(CHANGES):
        assert leader.set_policy("m", {"specific": {"versions": [1, number + 2]}}, actor)
    rate = CHANGES / (time.monotonic() - started)
    print(f"{rate:.0f} changes per second")
    assert len(leader.events(limit=CHANGES + 100)) == before + CHANGES
    assert leader.verify_chain() is None
    assert rate >= WANTED_PER_SECOND
