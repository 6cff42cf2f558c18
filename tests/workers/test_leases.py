"""The lease of a replica in its workers."""

from __future__ import annotations

import asyncio
import time

from bridge.serving.control import RoutesView
from bridge.serving.link import LinkHub, Router, RouterLink
from bridge.workers.leases import LeaseClient, LeaseServer
from tests.serving.test_settlement import routes
from tests.serving.waiting import until
from tests.workers.linked import NoControl, pair


class Replica:
    """A control process whose lease is renewed by a new snapshot, and one worker of it."""

    def __init__(self) -> None:
        self.view = RoutesView("replica")
        self.renewals = 0
        self.leases = LeaseServer(self.view, lambda: self.hub.routers, 5.0)
        self.hub = LinkHub(NoControl(), words=self.leases.words, roll=self)
        self.view.on_published(self.hub.publish)
        self.worker = RoutesView("worker")
        self.leases.start()
        self._tasks: list[asyncio.Task[None]] = []

    def joined(self, router: Router) -> None:
        self.leases.welcome(router)

    def left(self, router: Router) -> None: ...

    async def renew(self) -> None:
        self.renewals += 1
        self.view.publish(routes(self.view.routes.epoch + 1))
        self.view.freshness.extend(time.monotonic() + 60)

    async def connect(self) -> None:
        ours, theirs = await pair()
        link = RouterLink(self.worker, LeaseClient(self.worker, theirs).words)
        self._tasks = [asyncio.create_task(self.hub.serve(ours)), asyncio.create_task(link.talk(theirs))]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_a_worker_of_a_bridge_that_is_alone_is_always_fresh() -> None:
    replica = Replica()
    replica.view.publish(routes(1))
    await replica.connect()
    await until(lambda: replica.worker.routes.epoch == 1)
    assert not replica.worker.freshness.over
    await replica.close()


async def test_a_worker_past_the_lease_waits_for_the_newest_snapshot() -> None:
    replica = Replica()
    replica.view.freshness.renew_by(replica.renew)
    replica.view.publish(routes(1))
    replica.view.freshness.extend(time.monotonic() + 60)
    await replica.connect()
    await until(lambda: replica.worker.routes.epoch == 1)
    assert not replica.worker.freshness.over

    replica.view.freshness.extend(time.monotonic() - 1)
    await until(lambda: replica.worker.freshness.over)
    await replica.worker.freshness.renewed(5)
    assert replica.renewals == 1
    assert replica.worker.routes.epoch == 2
    assert not replica.worker.freshness.over
    await replica.close()
