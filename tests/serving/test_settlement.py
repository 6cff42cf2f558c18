"""When every router uses a snapshot, and what is told of states until then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bridge.serving.control import RoutesView
from bridge.serving.link import LinkHub, RouterLink
from bridge.serving.routes import Routes
from tests.serving import snapshots
from tests.serving.waiting import until
from tests.workers.linked import NoControl, pair


def routes(epoch: int) -> Routes:
    return snapshots.routes(snapshots.model("half", [snapshots.servable(version=epoch)]), epoch=epoch)


class Router:
    """A router's end."""

    def __init__(self, name: str) -> None:
        self.view = RoutesView(name)
        self.link = RouterLink(self.view)

    def epochs(self) -> tuple[int, int]:
        """Of the snapshots that requests and what is told of states come from."""
        return self.view.routes.epoch, self.view.settled.epoch


@asynccontextmanager
async def connected(hub: LinkHub, name: str) -> AsyncIterator[Router]:
    ours, theirs = await pair()
    router = Router(name)
    tasks = [asyncio.create_task(hub.serve(ours, name)), asyncio.create_task(router.link.talk(theirs))]
    try:
        yield router
    finally:
        theirs.hang_up()
        await asyncio.gather(*tasks)


@pytest.fixture
def hub() -> LinkHub:
    return LinkHub(NoControl())


async def test_states_are_told_by_a_snapshot_that_all_use(hub: LinkHub) -> None:
    hub.publish(routes(1))
    async with connected(hub, "a") as a, connected(hub, "b") as b:
        await hub.wait_settled()
        assert (a.epochs(), b.epochs()) == ((1, 1), (1, 1))
        hub.publish(routes(2))
        await hub.wait_settled()
        assert (a.epochs(), b.epochs()) == ((2, 2), (2, 2))

        ours, end = await pair()
        silent = asyncio.create_task(hub.serve(ours, "silent"))
        await asyncio.sleep(0)
        hub.publish(routes(3))
        waiting = asyncio.create_task(hub.wait_settled())
        await until(lambda: a.view.routes.epoch == b.view.routes.epoch == 3)
        await asyncio.sleep(0.05)
        assert (a.view.settled.epoch, b.view.settled.epoch) == (2, 2)
        assert not waiting.done()
        end.hang_up()
        await silent
        await asyncio.wait_for(waiting, 5)
        assert (a.epochs(), b.epochs()) == ((3, 3), (3, 3))


async def test_a_router_that_joins_late_is_told_of_what_is_settled(hub: LinkHub) -> None:
    hub.publish(routes(1))
    async with connected(hub, "a"):
        await hub.wait_settled()
        async with connected(hub, "b") as b:
            await asyncio.wait_for(b.view.wait_settled(), 5)
            assert b.epochs() == (1, 1)
    await hub.wait_settled()


async def test_many_snapshots_at_once_settle(hub: LinkHub) -> None:
    async with connected(hub, "a") as a, connected(hub, "b") as b:
        for epoch in range(1, 200):
            hub.publish(routes(epoch))
            if epoch % 7 == 0:
                await asyncio.sleep(0)
        await asyncio.wait_for(hub.wait_settled(), 5)
        assert (a.epochs(), b.epochs()) == ((199, 199), (199, 199))


def test_one_router_alone_settles_by_itself() -> None:
    view = RoutesView()
    view.publish(routes(1))
    assert view.settled is view.routes
