"""Loading when a request or a client asks for it, on fake instances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bridge.errors import Code
from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import CopyState, Status
from bridge.placement.settings import HOUR, MINUTE, PlacementSettings
from tests.placement.fakes import MIB, World, settle

MakeWorld = Callable[..., World]
TEN_MODELS = PlacementSettings(default_size=MIB, second_copies=False)


def small(world: World, name: str = "a", models: int = 2, **times: int) -> None:
    """An instance with room for `models` models of 50 MiB, and none beyond."""
    world.add(name, models * 50 * MIB + 2 * MIB, **times)


async def test_an_unknown_model_is_not_found(make_world: MakeWorld) -> None:
    world = make_world()
    world.add()
    with pytest.raises(PlacementLoadError, match=r"^model not found$") as caught:
        await world.load("missing")
    assert caught.value.code is Code.NOT_FOUND
    assert world.placement.status("missing").status is Status.NOT_FOUND


async def test_everybody_waits_for_one_load(make_world: MakeWorld) -> None:
    world = make_world()
    world.add()
    world.catalog.register("m")
    tickets = [world.placement.ensure_loaded("m", world.clock.now(), urgent=bool(i % 2)) for i in range(50)]
    assert world.placement.status("m").status is Status.LOADING
    assert [copy.state for copy in world.placement.copies("m")] == [CopyState.LOADING]
    await world.clock.advance(30)
    assert {(await ticket).instance for ticket in tickets} == {"a"}
    assert world.instances["a"].loads == ["m"]


async def test_a_load_outlives_the_client_that_gave_up(make_world: MakeWorld) -> None:
    world = make_world()
    world.add(load_ms=5000)
    world.catalog.register("m")
    ticket = world.placement.ensure_loaded("m", world.clock.now(), urgent=True)
    await world.clock.advance(1000)
    ticket.cancel()
    await world.clock.advance(5000)
    assert world.placement.status("m").status is Status.LOADED


async def test_a_waiting_request_overtakes_other_loads(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(load_concurrency=1))
    instance = world.add()
    for name in ("first", "second", "third", "wanted"):
        world.catalog.register(name)
        world.placement.ensure_loaded(name, world.clock.now() - HOUR)
    world.placement.ensure_loaded("wanted", world.clock.now(), urgent=True)
    await world.clock.advance(1000)
    assert instance.loads == ["first", "wanted", "second", "third"]
    assert instance.most_in_flight == 1


async def test_a_registration_does_not_displace_what_was_used_since(make_world: MakeWorld) -> None:
    world = make_world(TEN_MODELS)
    small(world)
    for name in ("hot", "warm", "new"):
        world.catalog.register(name)
    await world.load("hot")
    await world.load("warm")
    ticket = world.placement.ensure_loaded("new", world.clock.now() - HOUR)
    with pytest.raises(PlacementLoadError, match=r"^Nowhere available to load: every instance is full of models") as e:
        ticket.result()
    assert e.value.code is Code.UNAVAILABLE
    assert world.placement.status("new").status is Status.NOT_LOADED
    await world.load("new", urgent=True)
    assert world.states(["hot", "warm", "new"]) == ["NOT_LOADED", "LOADED", "LOADED"]


async def test_a_request_waits_while_everything_is_loading(make_world: MakeWorld) -> None:
    world = make_world(TEN_MODELS)
    small(world, load_ms=1000)
    names = [f"m{number}" for number in range(6)]
    for name in names:
        world.catalog.register(name)
    tickets = [world.placement.ensure_loaded(name, world.clock.now(), urgent=True) for name in names]
    for _ in range(40):
        await world.clock.advance(500)
        for name, ticket in zip(names, tickets, strict=True):
            if ticket.done():
                world.placement.used(name, 1)
    assert all(ticket.done() and ticket.exception() is None for ticket in tickets)
    assert sorted(world.instances["a"].loads) == names
    assert world.instances["a"].most_bytes <= world.instances["a"].capacity


async def test_a_copy_loaded_for_a_request_stays_until_the_request_came(make_world: MakeWorld) -> None:
    world = make_world(TEN_MODELS)
    small(world, models=1)
    world.catalog.register("m")
    world.catalog.register("next")
    await world.load("m", urgent=True)
    ticket = world.placement.ensure_loaded("next", world.clock.now(), urgent=True)
    await world.clock.advance(100)
    assert world.states(["m", "next"]) == ["LOADED", "LOADING"]
    world.placement.used("m", 1)
    await world.clock.advance(1000)
    assert ticket.done()
    assert world.states(["m", "next"]) == ["NOT_LOADED", "LOADED"]


async def test_a_request_that_finds_no_room_is_told_so_in_the_end(make_world: MakeWorld) -> None:
    world = make_world(TEN_MODELS)
    small(world, models=1, load_ms=HOUR)
    for name in ("stuck", "m"):
        world.catalog.register(name)
    world.placement.ensure_loaded("stuck", world.clock.now(), urgent=True)
    ticket = world.placement.ensure_loaded("m", world.clock.now(), urgent=True)
    await world.clock.advance(3 * MINUTE + 1)
    with pytest.raises(PlacementLoadError, match="Nowhere available to load: every instance is busy loading"):
        ticket.result()
    assert world.catalog.failures("m") == ()


async def test_a_load_without_memory_is_given_up(make_world: MakeWorld) -> None:
    world = make_world(TEN_MODELS)
    small(world, models=1, unload_ms=HOUR)
    for name in ("old", "older", "m"):
        world.catalog.register(name)
    await world.load("old")
    ticket = world.placement.ensure_loaded("m", world.clock.now(), urgent=True)
    await world.clock.advance(3 * MINUTE + 1)
    with pytest.raises(PlacementLoadError, match="instance a has no room for model m of 52428800 bytes"):
        ticket.result()
    assert world.placement.status("m").status is Status.NOT_LOADED


async def test_no_instance_up(make_world: MakeWorld) -> None:
    world = make_world()
    instance = world.add()
    world.catalog.register("m")
    instance.up = False
    ticket = world.placement.ensure_loaded("m", world.clock.now(), urgent=True)
    await world.clock.advance(4000)
    assert not ticket.done()
    await world.clock.advance(1001)
    with pytest.raises(PlacementLoadError, match="Nowhere available to load: no instance is up"):
        ticket.result()
    second = world.placement.ensure_loaded("m", world.clock.now(), urgent=True)
    await world.clock.advance(1000)
    instance.up = True
    world.placement.instance_back("a")
    await world.clock.advance(100)
    assert second.result().instance == "a"


async def test_the_churn_guard_holds_only_when_it_is_set(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(default_size=MIB, min_churn_age_ms=MINUTE))
    small(world, models=1)
    world.catalog.register("young")
    world.catalog.register("m")
    await world.load("young")
    ticket = world.placement.ensure_loaded("m", world.clock.now(), urgent=True)
    with pytest.raises(PlacementLoadError, match=r"^Cache churn threshold exceeded$"):
        ticket.result()
    await world.clock.advance(MINUTE)
    await world.load("m", urgent=True)
    assert world.states(["young", "m"]) == ["NOT_LOADED", "LOADED"]


async def test_a_model_registered_anew_is_loaded_anew(make_world: MakeWorld) -> None:
    world = make_world()
    instance = world.add()
    world.catalog.register("m")
    await world.load("m")
    world.catalog.register("m")
    assert world.placement.status("m").status is Status.NOT_LOADED
    await world.load("m")
    await world.clock.advance(100)
    assert list(instance.present) == [("m", 2)]


async def test_removing_a_model_while_it_loads(make_world: MakeWorld) -> None:
    world = make_world()
    instance = world.add(load_ms=1000)
    world.catalog.register("m")
    ticket = world.placement.ensure_loaded("m", world.clock.now())
    await world.clock.advance(500)
    del world.catalog.models["m"]
    world.placement.remove("m")
    with pytest.raises(PlacementLoadError, match="model not found"):
        ticket.result()
    assert world.placement.copies("m") == ()
    await world.clock.advance(1000)
    assert instance.present == {}


async def test_requests_in_flight_finish_before_the_unload(make_world: MakeWorld) -> None:
    world = make_world()
    instance = world.add()
    world.catalog.register("m")
    await world.load("m")
    world.router.busy["m", "a"] = asyncio.Event()
    del world.catalog.models["m"]
    world.placement.remove("m")
    assert world.router.changes[-1] == "m"
    await world.clock.advance(MINUTE)
    assert len(instance.present) == 1
    world.router.busy["m", "a"].set()
    await settle()
    await world.clock.advance(1)
    assert instance.present == {}


async def test_requests_that_never_end_hold_up_an_unload_for_a_while_only(make_world: MakeWorld) -> None:
    world = make_world()
    instance = world.add()
    world.catalog.register("m")
    await world.load("m")
    world.router.busy["m", "a"] = asyncio.Event()
    world.placement.remove("m")
    await world.clock.advance(126_000)
    assert len(instance.present) == 1
    await world.clock.advance(1001)
    assert instance.present == {}


@pytest.mark.parametrize(
    ("error", "tries"),
    [(PlacementLoadError(Code.NOT_FOUND, "unknown"), 1), (PlacementLoadError(Code.UNAVAILABLE, "away"), 2)],
    ids=["unknown-counts-as-unloaded", "others-are-tried-again"],
)
async def test_an_unload_that_fails(make_world: MakeWorld, error: PlacementLoadError, tries: int) -> None:
    world = make_world()
    world.add().unload_errors = [error]
    world.catalog.register("m")
    await world.load("m")
    world.placement.remove("m")
    await world.clock.advance(11_000)
    assert sum(what.startswith("unload") for what, *_ in world.recorder.heard) == tries
    assert world.recorder.heard[-1][0] == "unloaded"


async def test_loads_are_observed(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(load_concurrency=1))
    world.add(load_ms=40)
    for name in ("first", "second"):
        world.catalog.register(name)
        world.placement.ensure_loaded(name, world.clock.now())
    await world.clock.advance(100)
    assert world.recorder.heard == [
        ("load_started", "first", "a", 0),
        ("loaded", "first", "a", 40),
        ("sized", "first", "a", 50 * MIB),
        ("load_started", "second", "a", 40),
        ("loaded", "second", "a", 40),
        ("sized", "second", "a", 50 * MIB),
    ]
