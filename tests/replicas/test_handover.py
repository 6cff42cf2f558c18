"""When a new leader's snapshot has everything that served before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.replicas import handover
from bridge.replicas.handover import Handover
from bridge.serving.routes import InstanceRoute, ModelRoute, Routes, ServableRoute, VersionState, VersionStatus


def servable(version: int, *instances: str) -> ServableRoute:
    return ServableRoute("m", version, f"tfs.m.{version}", instances, {}, b"")


def routes(epoch: int, *servables: ServableRoute, statuses: tuple[VersionStatus, ...] = (), **model: Any) -> Routes:
    route = ModelRoute("m", {item.version: item for item in servables}, {}, statuses, **model)
    return Routes(epoch, {"m": route}, {"t": InstanceRoute("t", "t:1", "")}, configured=True)


LAST = routes(5, servable(1, "t"))


@pytest.mark.parametrize(
    ("found", "confirmed"),
    [
        (routes(9, servable(1, "t")), True),
        (routes(9, servable(2, "t")), True),
        (routes(9, servable(1)), False),
        (routes(9, unread=True), False),
        (routes(9, awaited=(1,)), False),
        (routes(9, statuses=(VersionStatus(1, VersionState.LOADING),)), False),
        (routes(9, statuses=(VersionStatus(1, VersionState.END),)), True),
        (routes(9, configured=False), True),
        (Routes(9, {}, {}, configured=True), True),
        (Routes(9, {}, {}), False),
    ],
    ids=["found", "replaced", "lost", "unread", "awaited", "loading", "ended", "left", "gone", "unconfigured"],
)
def test_what_confirms_a_snapshot(found: Routes, confirmed: bool) -> None:
    assert handover.confirms(found, LAST, lambda name: True) == confirmed


def test_an_instance_has_to_be_up_first() -> None:
    assert not handover.confirms(routes(9, servable(1, "t")), LAST, lambda name: False)


@pytest.fixture
def given() -> list[int]:
    return []


@pytest.fixture
def begin(given: list[int]) -> Callable[[Routes], Handover]:
    return lambda last: Handover(last, lambda name: True, lambda routes: given.append(routes.epoch))


async def test_snapshots_are_held_back_until_one_confirms(
    begin: Callable[[Routes], Handover], given: list[int]
) -> None:
    handing = begin(LAST)
    handing.publish(routes(8, unread=True))
    assert given == []
    assert handing.serves("tfs.m.1")
    handing.publish(routes(9, servable(1, "t")))
    handing.publish(routes(10, unread=True))
    await handing.ended()
    assert given == [9, 10]
    assert handing.first_epoch == 9
    assert handing.serves("tfs.m.1")
    handing.release()
    assert not handing.serves("tfs.m.1")


async def test_a_first_leader_holds_nothing_back(begin: Callable[[Routes], Handover], given: list[int]) -> None:
    begin(Routes(0, {}, {})).publish(routes(8, unread=True))
    assert given == [8]


async def test_what_is_not_found_is_given_up_in_the_end(
    begin: Callable[[Routes], Handover], given: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "LONGEST_SECONDS", 0.01)
    handing = begin(LAST)
    handing.publish(routes(8, unread=True))
    await handing.ended()
    assert given == [8]
