"""Failed loads: where they are tried next, when they are forgotten. On fake instances."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.errors import Code
from bridge.placement.errors import PlacementLoadError
from bridge.placement.failures import FailureRules
from bridge.placement.model import CopyState, ErrorKind, Failure, Status
from bridge.placement.settings import MINUTE, PlacementSettings
from tests.placement.fakes import FakeInstance, World

MakeWorld = Callable[..., World]
BROKEN = PlacementLoadError(Code.INVALID_ARGUMENT, "the graph is broken")


def fail(world: World, error: PlacementLoadError = BROKEN) -> None:
    for instance in world.instances.values():
        instance.failing["m"] = error


def attempts(world: World) -> list[str]:
    return [name for name, instance in world.instances.items() for _ in instance.loads]


async def test_a_failure_is_told_with_instance_and_time(make_world: MakeWorld) -> None:
    world = make_world()
    world.add()
    world.catalog.register("m")
    fail(world)
    with pytest.raises(PlacementLoadError, match=r"^the graph is broken$") as caught:
        await world.load("m")
    assert caught.value.code is Code.INVALID_ARGUMENT
    status = world.placement.status("m")
    assert status.status is Status.LOADING_FAILED
    assert status.errors == ("the graph is broken",)
    [copy] = status.copies
    assert (copy.instance, copy.state) == ("a", CopyState.LOADING_FAILED)
    assert world.clock.now() - copy.since_ms < 15_000


@pytest.mark.parametrize(("instances", "tries"), [(1, 1), (2, 2), (3, 3), (5, 3)])
async def test_at_most_three_instances_are_tried(make_world: MakeWorld, instances: int, tries: int) -> None:
    world = make_world()
    for number in range(instances):
        world.add(f"i{number}")
    world.catalog.register("m")
    fail(world)
    for _ in range(3):
        with pytest.raises(PlacementLoadError, match="the graph is broken"):
            await world.load("m", urgent=True)
    assert len(attempts(world)) == len(set(attempts(world))) == tries
    assert len(world.placement.status("m").copies) == tries
    for instance in world.instances.values():
        assert instance.present == {}


async def test_a_failure_here_is_made_up_for_elsewhere(make_world: MakeWorld) -> None:
    world = make_world()
    bad, good = world.add("bad"), world.add("good")
    bad.failing["m"] = BROKEN
    for number in range(20):
        world.catalog.register("m")
        world.catalog.failed_loads.clear()
        await world.load("m")
        if bad.loads:
            break
        assert number < 19
    await world.clock.advance(100)
    status = world.placement.status("m")
    assert status.status is Status.LOADED
    assert world.where("m") == {"good"}
    assert {copy.state for copy in status.copies} == {CopyState.LOADED, CopyState.LOADING_FAILED}
    assert status.errors == ("the graph is broken",)
    assert good.loads


@pytest.mark.parametrize(
    ("asked_again", "still_failed", "expired"),
    [(False, 14 * MINUTE, 2 * MINUTE), (True, 7 * MINUTE, MINUTE)],
    ids=["15-minutes", "7.5-while-requested"],
)
async def test_expiry(make_world: MakeWorld, asked_again: bool, still_failed: int, expired: int) -> None:
    world = make_world()
    instance = world.add()
    world.catalog.register("m")
    fail(world)
    with pytest.raises(PlacementLoadError):
        await world.load("m")
    instance.failing.clear()
    await world.clock.advance(still_failed - 1000)
    if asked_again:
        with pytest.raises(PlacementLoadError, match="the graph is broken"):
            await world.load("m")
    assert world.placement.status("m").status is Status.LOADING_FAILED
    await world.clock.advance(expired)
    assert world.placement.status("m").status is Status.NOT_LOADED
    assert world.placement.status("m").copies == ()
    world.placement.tick()
    assert world.catalog.failures("m") == ()
    await world.load("m")
    assert world.placement.status("m").status is Status.LOADED


async def test_the_short_expiry_of_the_vector(make_world: MakeWorld) -> None:
    """Expiry of 2 s: still failed after 1 s, loaded by a request 3 s later; recent requests halve it."""
    world = make_world(PlacementSettings(failure_expiry_ms=4000))
    instance = world.add()
    world.catalog.register("FAIL_x")
    instance.failing["FAIL_x"] = PlacementLoadError(Code.INTERNAL, "load failed: x")
    with pytest.raises(PlacementLoadError, match=r"x$"):
        await world.load("FAIL_x")
    instance.failing.clear()
    await world.clock.advance(1000)
    with pytest.raises(PlacementLoadError, match=r"x$"):
        await world.load("FAIL_x", urgent=True)
    await world.clock.advance(3000)
    await world.load("FAIL_x", urgent=True)
    assert instance.loads == ["FAIL_x", "FAIL_x"]


async def test_a_success_drops_the_failure_there(make_world: MakeWorld) -> None:
    world = make_world()
    world.add().failing["m"] = BROKEN
    world.catalog.register("m")
    with pytest.raises(PlacementLoadError):
        await world.load("m")
    world.instances["a"].failing.clear()
    await world.clock.advance(16 * MINUTE)
    await world.load("m")
    assert world.catalog.failures("m") == ()


async def test_the_platforms_failures_are_not_the_models(make_world: MakeWorld) -> None:
    world = make_world()
    world.add("i0")
    world.add("i1")
    world.catalog.register("m")
    fail(world, PlacementLoadError(Code.UNAVAILABLE, "the disk is full", ErrorKind.PLATFORM))
    with pytest.raises(PlacementLoadError, match="the disk is full") as caught:
        await world.load("m", urgent=True)
    assert caught.value.code is Code.UNAVAILABLE
    assert sorted(attempts(world)) == ["i0", "i1"]
    assert world.placement.status("m").status is Status.NOT_LOADED
    for instance in world.instances.values():
        instance.failing.clear()
    await world.load("m", urgent=True)


async def test_an_unexpected_fault_of_an_instance(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(self: FakeInstance, model: object) -> int:
        raise ValueError("odd")

    monkeypatch.setattr(FakeInstance, "load", load)
    world = make_world()
    world.add()
    world.catalog.register("m")
    with pytest.raises(PlacementLoadError, match=r"^ValueError: odd$") as caught:
        await world.load("m")
    assert caught.value.code is Code.INTERNAL


def failures(*ages: int) -> list[Failure]:
    return [Failure(f"i{age}", Code.INTERNAL, f"{age}", 10**9 - age) for age in ages]


@pytest.mark.parametrize(
    ("ages", "verdict"),
    [
        ((), None),
        ((1, 2), None),
        ((3, 1, 2), "1"),
        ((1, 2, 7 * MINUTE), "1"),
        ((1, 2, 8 * MINUTE), None),
    ],
)
def test_verdict(ages: tuple[int, ...], verdict: str | None) -> None:
    error = FailureRules(PlacementSettings()).verdict(failures(*ages), 10**9)
    assert (error.message if error else None) == verdict
