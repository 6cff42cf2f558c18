"""What requests wait for after a start of the server."""

from __future__ import annotations

import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle.awaited import AwaitedVersions
from bridge.lifecycle.model import ModelManager
from tests.lifecycle.surroundings import FakeSurroundings

BROKEN = BridgeError("no such file", Code.NOT_FOUND)


def starting(*served_before: int) -> FakeSurroundings:
    """A model of a server that has just started; these versions served when it was killed."""
    around = FakeSurroundings()
    around.manager = ModelManager("m", around, AwaitedVersions(served_before, at_start=True))
    return around


def awaited(around: FakeSurroundings) -> tuple[bool, tuple[int, ...]]:
    route = around.manager.route()
    return route.unread, route.awaited


async def test_the_first_versions_are_awaited_until_one_serves() -> None:
    around = starting()
    assert awaited(around) == (True, ())
    around.aspire(1, 2)
    assert awaited(around) == (False, (1, 2))
    await around.finish(1)
    assert awaited(around) == (False, ())


async def test_the_first_versions_are_awaited_until_all_ended() -> None:
    around = starting()
    around.aspire(1, 2)
    await around.fail(2, BROKEN)
    assert awaited(around) == (False, (1,))
    await around.fail(1, BROKEN)
    assert awaited(around) == (False, ())
    around.aspire(1, 2, 3)
    assert awaited(around) == (False, ()), "a later version is no part of the start"


async def test_a_version_that_served_before_is_awaited_although_another_one_serves() -> None:
    around = starting(2)
    around.aspire(1, 2)
    await around.finish(1)
    assert awaited(around) == (False, (2,))
    await around.finish(2)
    assert awaited(around) == (False, ())


@pytest.mark.parametrize("wanted", [(), (3,)])
async def test_a_version_that_is_not_wanted_any_more_is_not_awaited(wanted: tuple[int, ...]) -> None:
    around = starting(2)
    assert awaited(around) == (True, (2,))
    around.aspire(*wanted)
    assert awaited(around) == (False, wanted)


async def test_a_base_path_that_cannot_be_read_is_awaited_only_for_what_served() -> None:
    for around, versions in ((starting(), ()), (starting(2), (2,))):
        assert awaited(around) == (True, versions)
        around.manager.unreadable()
        assert awaited(around) == (False, versions)


async def test_labels_of_awaited_versions_are_assigned() -> None:
    around = starting()
    around.manager.set_labels({"stable": 1, "other": 9})
    around.aspire(1)
    assert around.manager.route().labels == {"stable": 1}


async def test_a_model_that_comes_later_is_not_awaited() -> None:
    around = FakeSurroundings()
    around.aspire(1)
    assert awaited(around) == (False, ())
