"""Copies by use: the second one, more by rate, fewer when memory is short; filling of free space. Fake instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bridge.placement.scaling import Cluster, Load, Scaling
from bridge.placement.settings import HOUR, MINUTE, SECOND, PlacementSettings
from bridge.placement.usage import Usage
from tests.placement.fakes import MIB, World

MakeWorld = Callable[..., World]
HUNDREDTH = PlacementSettings(
    second_copy_min_age_ms=4200, second_copy_max_age_ms=24_000, rate_interval_ms=100, default_size=MIB
)
"""The second copy's times divided by 100, as upstream's own test has them."""


async def pass_time(world: World, milliseconds: int, *, use: str = "", rpm: int = 0) -> None:
    """Rounds of upkeep while time passes, with `rpm` requests a minute for model `use`."""
    interval = world.placement.settings.rate_interval_ms
    for _ in range(milliseconds // interval):
        if rpm:
            world.placement.used(use, rpm * interval // MINUTE)
        await world.clock.advance(interval)
        world.placement.tick()
    await world.clock.advance(50)


async def fleet(make_world: MakeWorld, count: int, settings: PlacementSettings) -> World:
    world = make_world(settings)
    for number in range(count):
        world.add(f"i{number}")
    world.catalog.register("m")
    await world.load("m")
    return world


async def test_regular_use_brings_a_second_copy(make_world: MakeWorld) -> None:
    """Uses after 0, 1, 12 and 16.5 s: each is answered by one copy, the last one finds two."""
    world = await fleet(make_world, 2, HUNDREDTH)
    found = []
    for pause in (0, 1000, 11_000, 4500):
        await pass_time(world, pause)
        found.append(len(world.where("m")))
        world.placement.used("m", 1)
    assert found == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("uses", "regular"),
    [
        ((0,), False),
        ((0, 1), False),
        ((0, 6), False),
        ((0, 8), True),
        ((0, 39), True),
        ((0, 41), False),
        ((0, 3, 6, 9), True),
        ((0, 41, 45), False),
        ((0, 41, 49), True),
        ((0, 6, 12), True),
    ],
)
def test_regular_use_in_minutes(uses: tuple[int, ...], regular: bool) -> None:
    usage = Usage(PlacementSettings(), 0)
    found = False
    for minute in range(uses[-1] + 1):
        if minute in uses:
            usage.used("m", 1, minute * MINUTE)
        found = "m" in usage.close_interval(minute * MINUTE)
    assert found is regular


async def test_no_second_copy_when_switched_off(make_world: MakeWorld) -> None:
    world = await fleet(make_world, 2, replace(HUNDREDTH, second_copies=False))
    await pass_time(world, 20_000, use="m", rpm=600)
    assert len(world.where("m")) == 1


async def test_busy_models_get_more_copies_and_lose_them_when_memory_is_short(make_world: MakeWorld) -> None:
    world = await fleet(make_world, 6, PlacementSettings(default_size=MIB))
    await pass_time(world, 30 * SECOND, use="m", rpm=4100)
    assert len(world.where("m")) == 3
    await pass_time(world, 30 * SECOND, use="m", rpm=6500)
    assert len(world.where("m")) == 4
    await pass_time(world, HOUR, use="m", rpm=60)
    assert len(world.where("m")) == 4
    for number in range(6):
        world.catalog.register(f"big{number}", 950 * MIB)
        await world.load(f"big{number}", urgent=True)
    await pass_time(world, 10 * MINUTE, use="m", rpm=60)
    assert len(world.where("m")) == 2


async def test_a_busy_model_never_has_two_copies_on_one_instance(make_world: MakeWorld) -> None:
    world = await fleet(make_world, 2, PlacementSettings(default_size=MIB))
    await pass_time(world, MINUTE, use="m", rpm=100_000)
    assert world.where("m") == {"i0", "i1"}
    assert all(instance.loads == ["m"] for instance in world.instances.values())


@pytest.mark.parametrize("fill", [False, True])
async def test_free_space_is_filled_only_when_asked(make_world: MakeWorld, fill: bool) -> None:
    world = make_world(PlacementSettings(default_size=MIB, fill_free_space=fill))
    world.add()
    for number in range(30):
        world.catalog.register(f"m{number}")
    for _ in range(5):
        world.placement.tick()
        await world.clock.advance(10_000)
    [view] = world.placement.instances()
    assert view.models == (17 if fill else 0)
    assert view.used <= view.usable * 7 // 8


ROOMY = Cluster(usable=1000, free=200, oldest_age_ms=HOUR)
FULL = Cluster(usable=1000, free=10, oldest_age_ms=20 * HOUR)
OLD_AND_FULL = Cluster(usable=1000, free=10, oldest_age_ms=21 * HOUR)
ONE = Load(1, 0, 5, 6, 0.0, False, 0, HOUR, HOUR)


@pytest.mark.parametrize(
    ("load", "cluster", "added"),
    [
        (ONE, ROOMY, 0),
        (replace(ONE, regular=True), ROOMY, 1),
        (replace(ONE, regular=True), FULL, 0),
        (replace(ONE, regular=True), OLD_AND_FULL, 1),
        (replace(ONE, regular=True, copies=2), ROOMY, 0),
        (replace(ONE, rpm=1999), ROOMY, 0),
        (replace(ONE, rpm=2000), FULL, 1),
        (replace(ONE, rpm=4000), ROOMY, 2),
        (replace(ONE, rpm=40_000), ROOMY, 2),
        (replace(ONE, rpm=40_000, hosts=12, candidates=11), ROOMY, 4),
        (replace(ONE, rpm=3999, copies=2), ROOMY, 0),
        (replace(ONE, rpm=4000, copies=2), ROOMY, 1),
        (replace(ONE, rpm=4000, pending=1), ROOMY, 0),
        (replace(ONE, rpm=4000, candidates=0), ROOMY, 0),
        (replace(ONE, rpm=4000, copies=0), ROOMY, 0),
    ],
)
def test_to_add(load: Load, cluster: Cluster, added: int) -> None:
    assert Scaling(PlacementSettings()).to_add(load, cluster) == added


TWO = replace(ONE, copies=2, idle_ms=11 * HOUR)
THREE = replace(ONE, copies=3)


@pytest.mark.parametrize(
    ("load", "cluster", "too_many"),
    [
        (TWO, FULL, True),
        (TWO, ROOMY, False),
        (replace(TWO, idle_ms=HOUR), FULL, False),
        (replace(TWO, idle_ms=2 * HOUR), FULL, True),
        (replace(TWO, pending=1), FULL, False),
        (replace(TWO, rpm=1400), FULL, False),
        (replace(TWO, copies=1), FULL, False),
        (THREE, FULL, True),
        (replace(THREE, newest_copy_age_ms=29 * MINUTE), FULL, False),
        (replace(THREE, last_removal_age_ms=79 * SECOND), FULL, False),
        (replace(THREE, rpm=2600), FULL, True),
        (replace(THREE, rpm=2800), FULL, False),
    ],
)
def test_one_too_many(load: Load, cluster: Cluster, too_many: bool) -> None:
    assert Scaling(PlacementSettings()).has_one_too_many(load, cluster) is too_many
