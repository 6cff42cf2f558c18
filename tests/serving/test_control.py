from __future__ import annotations

import asyncio

import pytest

from bridge.serving.control import RoutesView
from tests.serving import snapshots


@pytest.fixture
async def view() -> RoutesView:
    return RoutesView("router")


def test_older_snapshots_are_ignored(view: RoutesView) -> None:
    view.publish(snapshots.routes(epoch=5))
    view.publish(snapshots.routes(epoch=4))
    assert view.routes.epoch == 5


def test_the_oldest_request_in_flight_holds_its_epoch(view: RoutesView) -> None:
    told: list[tuple[str, int]] = []
    view.publish(snapshots.routes(epoch=1))
    view.connect(lambda router, epoch: told.append((router, epoch)))
    first, second = view.enter(), view.enter()
    view.publish(snapshots.routes(epoch=2))
    third = view.enter()
    assert view.in_flight == 3
    view.leave(first)
    view.leave(third)
    assert view.drained_epoch() == 1
    view.leave(second)
    assert view.drained_epoch() == 2
    assert told == [("router", 1), ("router", 1), ("router", 2)]


async def test_publications_wake_the_waiting(view: RoutesView) -> None:
    seen: list[int] = []
    view.on_published(lambda routes: seen.append(routes.epoch))
    waiting = asyncio.ensure_future(view.changed())
    await asyncio.sleep(0)
    view.publish(snapshots.routes(epoch=1))
    await waiting
    assert seen == [1]


def test_lost_copies_are_passed_on(view: RoutesView) -> None:
    lost: list[tuple[str, str]] = []
    view.on_lost(lambda *copy: lost.append(copy))
    view.lose("m", "one")
    assert lost == [("m", "one")]
