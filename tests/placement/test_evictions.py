"""ModelMesh's vectors of capacity, on a fake instance: 1 GiB, models of 50 MiB, 20 ms to load, 1 s to unload."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.placement.settings import PlacementSettings
from tests.placement.fakes import MIB, FakeInstance, World

SETTINGS = PlacementSettings(default_size=50 * MIB, load_concurrency=6, drain_delay_ms=200, second_copies=False)


def name(number: int) -> str:
    return f"model-{number}"


@pytest.fixture
async def world(make_world: Callable[..., World]) -> World:
    """18 models, registered 10 ms apart and loaded."""
    world = make_world(SETTINGS)
    world.add(unload_ms=1000)
    for number in range(18):
        world.catalog.register(name(number))
        ticket = world.placement.ensure_loaded(name(number), world.clock.now())
        await world.clock.advance(10)
    await world.clock.advance(200)
    assert ticket.done()
    return world


def instance(world: World) -> FakeInstance:
    return world.instances["a"]


async def register(world: World, number: int, size: int = 50 * MIB) -> int:
    """Load a new model; the milliseconds that took."""
    instance(world).sizes[world.catalog.register(name(number)).key] = size
    before = world.clock.now()
    await world.load(name(number))
    return world.clock.now() - before


async def test_eighteen_models_stay(world: World) -> None:
    assert world.states(map(name, range(18))) == ["LOADED"] * 18
    [view] = world.placement.instances()
    assert (view.usable, view.used) == (949 * MIB, 900 * MIB)


async def test_the_reserve_absorbs_two_unloads(world: World) -> None:
    assert 15 <= await register(world, 18) <= 50
    assert world.states([name(0), name(1), name(18)]) == ["NOT_LOADED", "LOADED", "LOADED"]
    assert 15 <= await register(world, 19) <= 50
    assert world.states([name(1), name(2), name(19)]) == ["NOT_LOADED", "LOADED", "LOADED"]
    assert 1100 <= await register(world, 20) <= 1300
    assert world.states([name(2), name(3), name(20)]) == ["NOT_LOADED", "LOADED", "LOADED"]
    assert instance(world).most_bytes <= 1024 * MIB


async def test_a_model_comes_back_at_the_expense_of_the_next(world: World) -> None:
    for number in (18, 19, 20):
        await register(world, number)
    ticket = world.placement.ensure_loaded(name(0), world.clock.now())
    assert world.states([name(0), name(3), name(4)]) == ["LOADING", "NOT_LOADED", "LOADED"]
    await world.clock.advance(2000)
    assert ticket.done()
    assert world.states([name(0)]) == ["LOADED"]


@pytest.mark.parametrize("tells_size", [True, False], ids=["load-tells", "asked-afterwards"])
@pytest.mark.parametrize(("actual", "more"), [(200, 3), (160, 2), (50, 0), (10, 0)])
async def test_a_size_is_corrected_after_the_load(world: World, actual: int, more: int, tells_size: bool) -> None:
    instance(world).tells_size = tells_size
    await register(world, 18, actual * MIB)
    await world.clock.advance(150)
    evicted = 1 + more
    assert world.states(map(name, range(19))) == ["NOT_LOADED"] * evicted + ["LOADED"] * (19 - evicted)
    await world.clock.advance(2000)
    [view] = world.placement.instances()
    assert view.used == instance(world).bytes <= 949 * MIB


@pytest.mark.parametrize("count", [1, 3, 10, 18])
async def test_simultaneous_registrations_evict_exactly_the_oldest(world: World, count: int) -> None:
    new = [name(100 + number) for number in range(count)]
    for model_id in new:
        world.catalog.register(model_id)
    tickets = [world.placement.ensure_loaded(model_id, world.clock.now()) for model_id in new]
    await world.clock.advance(30_000)
    assert all(ticket.done() for ticket in tickets)
    assert world.states(map(name, range(18))) == ["NOT_LOADED"] * count + ["LOADED"] * (18 - count)
    assert world.states(new) == ["LOADED"] * count
    assert instance(world).most_bytes <= 1024 * MIB
    assert instance(world).most_in_flight <= 6


async def test_victims_that_are_unregistered_meanwhile_cost_nothing_more(world: World) -> None:
    new = [name(100 + number) for number in range(6)]
    for model_id in new:
        world.catalog.register(model_id)
        world.placement.ensure_loaded(model_id, world.clock.now())
    for number in range(3):
        del world.catalog.models[name(number)]
        world.placement.remove(name(number))
    await world.clock.advance(30_000)
    assert world.states(map(name, range(6))) == ["NOT_FOUND"] * 3 + ["NOT_LOADED"] * 3
    assert world.states([*map(name, range(6, 18)), *new]) == ["LOADED"] * 18


async def test_a_model_that_never_fits_fails_with_its_size(world: World) -> None:
    world.catalog.register("huge", 2000 * MIB)
    with pytest.raises(Exception, match=r"^Nowhere available to load: Predicted size of \d+ bytes for model huge"):
        await world.load("huge")
    assert world.states(map(name, range(18))) == ["LOADED"] * 18


async def test_a_model_that_turns_out_never_to_fit_is_taken_off(world: World) -> None:
    instance(world).sizes[world.catalog.register("liar").key] = 2000 * MIB
    world.placement.ensure_loaded("liar", world.clock.now())
    await world.clock.advance(5000)
    status = world.placement.status("liar")
    assert status.status.name == "LOADING_FAILED"
    assert status.errors[0].startswith("Size of 2097152000 bytes for model liar is larger than")
    assert world.states(map(name, range(1, 18))) == ["LOADED"] * 17
