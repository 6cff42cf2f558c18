from __future__ import annotations

import asyncio
from collections.abc import Callable

from bridge.modelmesh.manager import VModelState
from bridge.placement.model import Status
from bridge.placement.settings import MINUTE
from tests.modelmesh.conftest import ACTOR, Mesh

DEFINED, TRANSITIONING, FAILED = VModelState.DEFINED, VModelState.TRANSITIONING, VModelState.TRANSITION_FAILED
MakeMesh = Callable[..., Mesh]


async def test_the_target_takes_over_when_it_is_loaded(make_mesh: MakeMesh) -> None:
    mesh = make_mesh()
    await mesh.start()
    await mesh.register("old")
    await mesh.set("v", "old")
    status = await mesh.set("v", "new")
    assert (status.state, status.active) == (DEFINED, "new")
    assert status.active_status is not None
    assert status.active_status.status is Status.LOADED
    assert mesh.actions("v") == ["vmodel created", "vmodel transition started", "vmodel promoted"]


async def test_the_target_gets_as_many_copies_as_the_active_model_has(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(3)
    await mesh.start()
    await mesh.register("old")
    await mesh.placement.ensure_loaded("old", mesh.clock.now(), copies=2)
    await mesh.set("v", "old")
    for number, instance in enumerate(mesh.instances):
        instance.load_ms = 5_000 * (number + 1)
    await mesh.set("v", "new", sync=False)
    await mesh.until(lambda: len(mesh.placement.loaded("new")) == 1)
    assert mesh.look("v") == (TRANSITIONING, "old", "new")
    await mesh.until(lambda: mesh.look("v")[0] is DEFINED)
    assert len(mesh.placement.loaded("new")) == 2


async def test_copies_that_have_no_room_do_not_hold_up_the_target(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(2)
    await mesh.start()
    await mesh.register("old")
    await mesh.placement.ensure_loaded("old", mesh.clock.now(), copies=2)
    await mesh.set("v", "old")
    mesh.instances[1].up = False
    mesh.placement.instance_lost("b")
    await mesh.set("v", "new")
    assert mesh.look("v") == (DEFINED, "new", "new")


async def test_a_broken_target_is_tried_again_when_its_failures_expired(make_mesh: MakeMesh) -> None:
    mesh = make_mesh()
    await mesh.start()
    await mesh.register("old")
    await mesh.set("v", "old")
    mesh.break_model("new")
    assert (await mesh.set("v", "new")).state is FAILED
    loads = sum(instance.loads.count("new") for instance in mesh.instances)
    await mesh.pass_time(MINUTE)
    assert sum(instance.loads.count("new") for instance in mesh.instances) == loads
    mesh.mend("new")
    await mesh.pass_time(16 * MINUTE)
    await mesh.until(lambda: mesh.look("v") == (DEFINED, "new", "new"))
    assert mesh.actions("v")[-2:] == ["vmodel transition resumed", "vmodel promoted"]


async def test_a_broken_target_never_goes_live_though_nobody_serves(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(1)
    await mesh.start()
    await mesh.register("old")
    await mesh.set("v", "old")
    mesh.break_model("new")
    await mesh.set("v", "new")
    mesh.placement.copy_lost("old", "a")
    assert mesh.placement.loaded("old") == ()
    await mesh.pass_time(20 * MINUTE)
    await mesh.until(lambda: mesh.instances[0].loads.count("new") > 1)
    await mesh.until(lambda: mesh.look("v")[0] is FAILED)
    assert mesh.look("v") == (FAILED, "old", "new")
    assert "vmodel promoted" not in mesh.actions("v")


async def test_a_fleet_that_is_away_is_no_fault_of_the_target(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(1)
    await mesh.start()
    await mesh.register("old")
    await mesh.set("v", "old")
    mesh.instances[0].load_ms = 60_000
    await mesh.set("v", "new", sync=False)
    mesh.instances[0].crash()
    mesh.placement.instance_lost("a")
    await mesh.pass_time(MINUTE)
    assert mesh.look("v") == (TRANSITIONING, "old", "new")
    mesh.instances[0].up = True
    mesh.placement.instance_back("a")
    await mesh.until(lambda: mesh.look("v") == (DEFINED, "new", "new"))
    assert mesh.catalog.failures("new") == ()


async def test_another_target_and_the_way_back(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(1)
    await mesh.start()
    await mesh.register("old")
    await mesh.set("v", "old")
    mesh.instances[0].load_ms = 10_000
    await mesh.set("v", "second", sync=False)
    await mesh.set("v", "third", sync=False)
    assert mesh.look("v") == (TRANSITIONING, "old", "third")
    assert mesh.manager.model_status("second").status is Status.NOT_FOUND
    back = await mesh.set("v", "old")
    assert (back.state, back.active) == (DEFINED, "old")
    assert mesh.manager.model_status("third").status is Status.NOT_FOUND
    await mesh.until(lambda: set(mesh.instances[0].present) == {("old", 1)})
    assert mesh.look("v") == (DEFINED, "old", "old")


async def test_waiting_ends_with_the_vmodel(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(1)
    await mesh.start()
    await mesh.register("old")
    await mesh.set("v", "old")
    mesh.instances[0].load_ms = 3_600_000
    waiting = asyncio.create_task(mesh.set("v", "new"))
    await mesh.until(lambda: mesh.look("v")[0] is TRANSITIONING)
    await mesh.manager.delete_vmodel("v", "", ACTOR)
    assert (await waiting).state is VModelState.NOT_FOUND


async def test_another_process_goes_on(make_mesh: MakeMesh) -> None:
    first = make_mesh(1)
    await first.start()
    await first.register("old")
    await first.set("v", "old")
    first.instances[0].load_ms = 3_600_000
    await first.set("v", "new", sync=False)
    await first.transitions.close()
    second = make_mesh(1)
    await second.start()
    await second.until(lambda: second.look("v") == (DEFINED, "new", "new"))
    assert second.actions("v") == ["vmodel created", "vmodel transition started", "vmodel promoted"]
