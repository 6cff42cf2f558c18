"""The leader's lease and its fencing number."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from bridge.errors import FailedPrecondition
from bridge.registry import Actor, ModelSpec, Owner, Registry
from bridge.registry.transaction import Transaction
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


@pytest.mark.parametrize("dialect", [pytest.param("postgresql", marks=pytest.mark.integration)])
def test_nobody_leads_before_the_last_write_of_the_leader_before(
    open_registry: Callable[..., Registry], actor: Actor
) -> None:
    """Its lease runs out while it writes."""
    registry, other = open_registry(), open_registry()
    lease = registry.acquire_lease("a", 0.5, actor)
    assert lease is not None
    guarded, order = threading.Event(), list[str]()

    def write(tx: Transaction) -> None:
        guarded.set()
        time.sleep(1.0)
        order.append("a writes")

    def lead() -> None:
        taken = None
        while taken is None:
            taken = other.acquire_lease("b", 60, actor)
        order.append("b leads")

    writing = threading.Thread(target=lambda: registry.fenced(lease)._transactions.run(write, actor))
    writing.start()
    assert guarded.wait(10)
    leading = threading.Thread(target=lead)
    leading.start()
    for thread in (writing, leading):
        thread.join()
    assert order == ["a writes", "b leads"]
    with pytest.raises(FailedPrecondition):
        registry.renew_lease(lease, 60, actor)


@pytest.mark.parametrize("dialect", [pytest.param("postgresql", marks=pytest.mark.integration)])
def test_a_lease_is_renewed_while_its_leader_writes(open_registry: Callable[..., Registry], actor: Actor) -> None:
    registry, other = open_registry(), open_registry()
    lease = registry.acquire_lease("a", 60, actor)
    assert lease is not None

    def write(tx: Transaction) -> None:
        assert other.renew_lease(lease, 60, actor).fence == lease.fence

    registry.fenced(lease)._transactions.run(write, actor)
