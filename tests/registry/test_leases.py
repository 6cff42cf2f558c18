"""The leader's lease and its fencing number."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.errors import FailedPrecondition
from bridge.registry import Actor, ModelSpec, Owner, Registry
from tests.registry.conftest import ManualClock


def test_one_leads_until_it_lets_go(registry: Registry, actor: Actor) -> None:
    first = registry.acquire_lease("a", 60, actor)
    assert first is not None
    assert first.fence == 1
    assert registry.acquire_lease("b", 60, actor) is None
    renewed = registry.renew_lease(first, 120, actor)
    assert renewed.expires_at > first.expires_at
    assert registry.release_lease(renewed, actor)
    assert not registry.release_lease(renewed, actor)
    second = registry.acquire_lease("b", 60, actor)
    assert second is not None
    assert (second.fence, registry.lease()) == (2, second)
    told = [event.action for event in registry.events()]
    assert told[-3:] == ["leadership taken", "leadership given back", "leadership taken"]


def test_a_lease_that_is_over_passes_on(registry: Registry, actor: Actor, clock: ManualClock) -> None:
    first = registry.acquire_lease("a", 0.0, actor)
    clock.advance(1)
    second = registry.acquire_lease("b", 60, actor)
    assert first is not None
    assert second is not None
    assert second.fence == first.fence + 1
    with pytest.raises(FailedPrecondition, match=r"'a' does not lead any more \(fencing number 1\); b does"):
        registry.renew_lease(first, 60, actor)


def test_writes_of_a_past_leader_are_refused(open_registry: Callable[..., Registry], actor: Actor) -> None:
    registry = open_registry()
    lease = registry.acquire_lease("a", 60, actor)
    assert lease is not None
    leader = registry.fenced(lease)
    assert leader.put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)
    registry.release_lease(lease, actor)
    other = open_registry()
    assert other.acquire_lease("b", 60, actor) is not None
    before = other.events()
    with pytest.raises(FailedPrecondition, match="'a' does not lead any more"):
        leader.record_version("m", 1, 30, actor=actor)
    assert other.events() == before


def test_the_same_holder_starts_anew(registry: Registry, actor: Actor) -> None:
    """A restarted process may bear the same name; its earlier self must not write any more."""
    first = registry.acquire_lease("a", 60, actor)
    second = registry.acquire_lease("a", 60, actor)
    assert first is not None
    assert second is not None
    with pytest.raises(FailedPrecondition):
        registry.fenced(first).put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)
    assert registry.fenced(second).put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)
