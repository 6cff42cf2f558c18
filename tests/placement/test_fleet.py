"""Several instances: copies on many, loss and return, drain, pinned servables, copies found at start. Fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bridge.errors import Code
from bridge.placement.errors import InsufficientResources, PlacementLoadError
from bridge.placement.model import Status
from bridge.placement.settings import HOUR, MINUTE, PlacementSettings
from tests.placement.fakes import MIB, World, settle

MakeWorld = Callable[..., World]
PLAIN = PlacementSettings(default_size=MIB, second_copies=False)


async def test_as_many_copies_as_asked_for(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    for name in ("a", "b", "c"):
        world.add(name)
    world.catalog.register("m")
    one = world.placement.ensure_loaded("m", world.clock.now())
    two = world.placement.ensure_loaded("m", world.clock.now(), copies=2)
    await world.clock.advance(30)
    assert one.done()
    assert two.done()
    assert len(world.where("m")) == 2
    nine = world.placement.ensure_loaded("m", world.clock.now(), copies=9)
    await world.clock.advance(30)
    assert nine.done()
    assert world.where("m") == {"a", "b", "c"}


async def test_fewer_copies_than_asked_for_when_an_instance_refuses(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    for name in ("a", "b"):
        world.add(name)
    world.instances["b"].failing["m"] = PlacementLoadError(Code.INTERNAL, "broken here")
    world.catalog.register("m")
    one = world.placement.ensure_loaded("m", world.clock.now())
    two = world.placement.ensure_loaded("m", world.clock.now(), copies=2)
    await world.clock.advance(100)
    assert one.result().instance == "a"
    with pytest.raises(PlacementLoadError, match="broken here"):
        two.result()
    assert world.placement.possible_copies("tensorflow") == 2


async def test_a_lost_instances_models_are_loaded_elsewhere_on_need(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    for name in ("a", "b"):
        world.add(name)
    names = [f"m{number}" for number in range(6)]
    for name in names:
        world.catalog.register(name)
        await world.load(name)
    lost = [name for name in names if world.where(name) == {"a"}]
    assert lost
    world.instances["a"].crash()
    world.placement.instance_lost("a")
    assert set(lost) <= set(world.router.changes)
    assert set(world.states(lost)) == {"NOT_LOADED"}
    for name in lost:
        await world.load(name, urgent=True, wait_ms=10_000)
        assert world.where(name) == {"b"}
    world.instances["a"].up = True
    world.placement.instance_back("a")
    world.catalog.register("next")
    await world.load("next")
    assert world.where("next") == {"a"}


async def test_a_load_on_an_instance_that_is_lost_goes_on_elsewhere(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    first = world.add("a", load_ms=1000)
    world.catalog.register("m")
    ticket = world.placement.ensure_loaded("m", world.clock.now(), urgent=True)
    await world.clock.advance(500)
    world.add("b")
    first.crash()
    world.placement.instance_lost("a")
    await world.clock.advance(30)
    assert ticket.result().instance == "b"
    await world.clock.advance(1000)
    assert world.where("m") == {"b"}
    assert world.catalog.failures("m") == ()


async def test_a_copy_that_died_is_replaced_on_need(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    instance = world.add()
    world.catalog.register("m")
    await world.load("m")
    instance.present.clear()
    world.placement.copy_lost("m", "a")
    assert world.placement.status("m").status is Status.NOT_LOADED
    await world.load("m", urgent=True)
    assert instance.loads == ["m", "m"]


async def test_draining_loads_elsewhere_first(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    old = world.add("old")
    for number in range(3):
        world.catalog.register(f"m{number}")
        await world.load(f"m{number}")
    new = world.add("new", load_ms=500)
    draining = asyncio.create_task(world.placement.drain("old"))
    await world.clock.advance(400)
    assert all(world.where(f"m{number}") == {"old"} for number in range(3))
    await world.clock.advance(2000)
    assert await draining == ()
    assert old.present == {}
    assert all(world.where(f"m{number}") == {"new"} for number in range(3))
    assert len(new.loads) == 3
    world.placement.resume("old")
    world.catalog.register("next")
    await world.load("next")
    assert world.where("next") == {"old"}


async def test_draining_tells_what_found_no_other_place(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    world.add("only")
    world.catalog.register("m")
    await world.load("m")
    draining = asyncio.create_task(world.placement.drain("only"))
    await world.clock.advance(6000)
    assert await draining == ("m",)
    assert world.placement.status("m").status is Status.NOT_LOADED


async def test_a_draining_instance_takes_no_copies(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    world.add("a")
    world.add("b")
    assert await world.placement.drain("a") == ()
    for number in range(4):
        world.catalog.register(f"m{number}")
        await world.load(f"m{number}")
    assert world.instances["a"].loads == []


async def test_pinned_servables_displace_models_and_are_never_evicted(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    instance = world.add(capacity=210 * MIB, unload_ms=1000)
    for number in range(4):
        world.catalog.register(f"m{number}")
        await world.load(f"m{number}")
        await world.clock.advance(10)
    pinning = asyncio.create_task(world.placement.pin("a", "tfs", 60 * MIB, "{name: x version: 1}"))
    await world.clock.advance(500)
    assert not pinning.done()
    await world.clock.advance(600)
    await pinning
    assert instance.bytes <= 150 * MIB
    assert world.states(["m0", "m1", "m2", "m3"]) == ["NOT_LOADED", "NOT_LOADED", "LOADED", "LOADED"]
    world.catalog.register("large", 140 * MIB)
    await world.load("large", urgent=True)
    assert world.states(["m2", "m3", "large"]) == ["NOT_LOADED", "NOT_LOADED", "LOADED"]
    await world.clock.advance(1000)
    world.placement.resize_pinned("a", "tfs", 100 * MIB)
    assert world.states(["large"]) == ["NOT_LOADED"]
    [view] = world.placement.instances()
    assert (view.pinned, view.models) == (100 * MIB, 0)
    world.placement.unpin("a", "tfs")
    await world.load("large", urgent=True)


async def test_a_pinned_servable_that_does_not_fit(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    world.add(capacity=200 * MIB)
    await world.placement.pin("a", "first", 150 * MIB, "{name: first version: 1}")
    with pytest.raises(InsufficientResources) as caught:
        await world.placement.pin("a", "second", 60 * MIB, "{name: second version: 7}")
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert caught.value.message == "Insufficient resources to load servable {name: second version: 7}"


async def test_copies_that_an_instance_had_are_restored_as_far_as_there_is_room(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    instance = world.add(capacity=140 * MIB)
    for number in range(3):
        world.catalog.register(f"m{number}")
    await world.load("m0")
    found = ["m0", "unknown", "m1", "m2"]
    assert [world.placement.restore("a", model_id) for model_id in found] == [False, False, True, False]
    assert world.states(["m0", "m1", "m2"]) == ["LOADED", "LOADING", "NOT_LOADED"]
    await world.clock.advance(100)
    assert world.states(["m0", "m1", "m2"]) == ["LOADED", "LOADED", "NOT_LOADED"]
    assert instance.loads == ["m0", "m1"]


async def test_copies_are_told_newest_first(make_world: MakeWorld) -> None:
    world = make_world(PLAIN)
    world.add("a")
    world.catalog.register("m")
    await world.load("m")
    await world.clock.advance(HOUR)
    world.add("b", load_ms=MINUTE)
    world.placement.ensure_loaded("m", world.clock.now(), copies=2)
    await settle()
    assert [(copy.instance, copy.state.name) for copy in world.placement.copies("m")] == [
        ("b", "LOADING"),
        ("a", "LOADED"),
    ]


async def test_the_interval_runs_by_the_clock(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(default_size=MIB, fill_free_space=True))
    world.add()
    world.catalog.register("m")
    running = asyncio.create_task(world.placement.run())
    await world.clock.advance(10_100)
    assert world.placement.status("m").status is Status.LOADED
    running.cancel()
