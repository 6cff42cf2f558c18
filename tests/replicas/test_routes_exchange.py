"""From the leader's publisher to a follower's view and back to the leader's leases, over a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.lifecycle.leases import RouterLeases
from bridge.registry import Actor, Registry
from bridge.registry.thread import RegistryThread
from bridge.replicas.progress import RouterProgress
from bridge.replicas.routes_reader import RoutesReader
from bridge.replicas.routes_writer import RoutesWriter
from bridge.serving.control import RoutesView
from bridge.serving.routes import Routes
from tests.support.waiting import wait_for

ELECTION = Actor("bridge", "election")


def routes(epoch: int) -> Routes:
    return Routes(epoch, {}, {}, configured=True)


class Exchange:
    def __init__(self, registry: Registry, thread: RegistryThread) -> None:
        self.registry = registry
        self.view = RoutesView("b")
        self.progress = RouterProgress(registry, thread, "b", 60)
        self.view.connect(self.progress.drained)
        self.reader = RoutesReader(registry, thread, self.view)
        lease = registry.acquire_lease("a", 60, ELECTION)
        assert lease is not None
        self.writer = RoutesWriter(registry.fenced(lease), thread)

    async def published(self, epoch: int) -> None:
        await asyncio.to_thread(wait_for, lambda: self.registry.read_routes(epoch - 1), 10, "published")

    async def told(self, epoch: int) -> None:
        def known() -> bool:
            return [(item.name, item.epoch) for item in self.registry.routers()] == [("b", epoch)]

        await asyncio.to_thread(wait_for, known, 10, f"epoch {epoch} is told")


@pytest.fixture
async def exchange(registry: Registry, thread: RegistryThread) -> AsyncIterator[Exchange]:
    exchange = Exchange(registry, thread)
    work = (exchange.writer.run(), exchange.reader.run(), exchange.progress.run())
    tasks = [asyncio.create_task(item) for item in work]
    yield exchange
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_snapshot_reaches_a_follower_and_its_progress_the_leader(exchange: Exchange) -> None:
    exchange.writer.publish(routes(5))
    await exchange.published(5)
    exchange.reader.look(5)
    await exchange.told(5)
    held = exchange.view.enter()
    exchange.writer.publish(routes(6))
    await exchange.published(6)
    exchange.reader.look(6)
    async with asyncio.timeout(10):
        while exchange.view.routes.epoch < 6:
            await exchange.view.changed()
    assert exchange.progress.known() == [("b", 5)]
    exchange.view.leave(held)
    await exchange.told(6)


async def test_a_past_leader_publishes_nothing(exchange: Exchange) -> None:
    exchange.writer.publish(routes(5))
    await exchange.published(5)
    lease = exchange.registry.lease()
    assert lease is not None
    exchange.registry.release_lease(lease, ELECTION)
    exchange.registry.acquire_lease("c", 60, ELECTION)
    exchange.writer.publish(routes(6))
    await asyncio.sleep(0.05)
    assert exchange.registry.read_routes(5) is None


async def test_while_this_replica_leads_its_own_leases_hear_of_its_routers(
    registry: Registry, thread: RegistryThread
) -> None:
    progress, leases = RouterProgress(registry, thread, "a", 60), RouterLeases(60)
    progress.drained("a", 3)
    progress.enlist("worker-1")
    progress.lead(leases)
    waiting = asyncio.create_task(leases.wait_drained(4))
    progress.drained("a", 4)
    await asyncio.sleep(0)
    assert not waiting.done()
    progress.drained("worker-1", 4)
    await asyncio.wait_for(waiting, 10)
    assert progress.known() == [("a", 4), ("a/worker-1", 4)]
    assert progress.owns("a/worker-1")
    progress.dismiss("worker-1")
    assert not progress.owns("a/worker-1")
