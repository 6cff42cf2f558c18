"""Replicas, routers and published routes, on the database's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bridge.errors import FailedPrecondition, Unavailable
from bridge.registry import Actor, ModelSpec, Owner, Registry, notices
from bridge.registry.listener import Listener
from bridge.registry.records import Replica
from tests.registry.conftest import ManualClock

A = Replica("a", "127.0.0.1:1", "1.0")
B = Replica("b", "127.0.0.1:2", "1.0")


def test_a_pulse_tells_who_leads_and_where(registry: Registry, actor: Actor) -> None:
    alone = registry.beat(A, [], 60)
    assert (alone.lease, alone.led, alone.leader_address, alone.epoch) == (None, False, "", 0)
    lease = registry.acquire_lease("a", 60, actor)
    registry.write_routes(7, "{}")
    seen = registry.beat(B, [("b", 3)], 60)
    assert (seen.lease, seen.led, seen.leader_address, seen.epoch) == (lease, True, "127.0.0.1:1", 7)


def test_routers_live_as_long_as_they_say(registry: Registry) -> None:
    registry.beat(A, [("a/1", 3), ("a/2", 4)], 60)
    registry.beat(B, [("b", 5)], -1)
    assert [(item.name, item.epoch) for item in registry.routers()][:2] == [("a/1", 3), ("a/2", 4)]
    registry.drain("a/1", "a", 9, 60)
    assert registry.routers()[0].epoch == 9
    registry.leave("a")
    assert "a/1" not in [item.name for item in registry.routers()]


def test_an_older_snapshot_is_not_published(registry: Registry) -> None:
    assert registry.read_routes(0) is None
    registry.write_routes(5, '{"epoch": 5}')
    registry.write_routes(4, '{"epoch": 4}')
    assert registry.read_routes(4) == '{"epoch": 5}'
    assert registry.read_routes(5) is None


def test_the_secret_is_the_same_for_all(open_registry: Callable[..., Registry]) -> None:
    secret = open_registry().replica_secret()
    assert len(secret) == 64
    assert open_registry().replica_secret() == secret


def test_nothing_of_this_is_history(registry: Registry) -> None:
    before = registry.events()
    registry.beat(A, [("a", 1)], 60)
    registry.drain("a", "a", 2, 60)
    registry.write_routes(1, "{}")
    registry.replica_secret()
    registry.leave("a")
    assert registry.events() == before


def test_a_lease_that_ran_out_is_renewed_if_nobody_took_it(registry: Registry, actor: Actor) -> None:
    lease = registry.acquire_lease("a", -1, actor)
    assert lease is not None
    with pytest.raises(Unavailable, match="'a' did not renew its leadership in time"):
        registry.fenced(lease).put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)
    renewed = registry.renew_lease(lease, 60, actor)
    assert renewed.fence == lease.fence
    assert registry.fenced(lease).put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)


def test_a_lease_that_was_given_back_is_not_renewed(registry: Registry, actor: Actor) -> None:
    lease = registry.acquire_lease("a", 60, actor)
    assert lease is not None
    registry.release_lease(lease, actor)
    with pytest.raises(FailedPrecondition, match="'a' does not lead any more"):
        registry.renew_lease(lease, 60, actor)


@pytest.mark.integration
async def test_bridges_hear_of_each_other(
    postgres_url: str, request: pytest.FixtureRequest, clock: ManualClock, actor: Actor
) -> None:
    from bridge.registry import schema

    request.getfixturevalue("postgres").empty_database(postgres_url)
    await asyncio.to_thread(schema.upgrade, postgres_url, clock=clock)
    heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    connected = asyncio.Event()
    listener = Listener(postgres_url, lambda word, content: heard.put_nowait((word, content)), connected.set)
    task = asyncio.create_task(listener.run())
    registry = await asyncio.to_thread(Registry.open, postgres_url, clock=clock, origin="a")
    try:
        async with asyncio.timeout(20):
            await connected.wait()
            await asyncio.to_thread(registry.put_model, ModelSpec("m", "/m"), Owner.CONFIG, actor)
            assert await heard.get() == (notices.WANTED, "a")
            await asyncio.to_thread(registry.write_routes, 7, "{}")
            assert await heard.get() == (notices.ROUTES, 7)
            await asyncio.to_thread(registry.notify, notices.USED, {"m": 3})
            assert await heard.get() == (notices.USED, {"m": 3})
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        registry.close()
