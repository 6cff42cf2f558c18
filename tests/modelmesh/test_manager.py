from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bridge.errors import BridgeError, Code
from bridge.placement.model import CopyState, Status
from bridge.placement.settings import HOUR
from tests.modelmesh.conftest import ACTOR, Mesh

MakeMesh = Callable[..., Mesh]


async def test_a_failed_load_is_tried_again_after_it_expired(make_mesh: MakeMesh) -> None:
    mesh = make_mesh()
    await mesh.start()
    mesh.break_model("m")
    assert await mesh.register("m") is Status.LOADING_FAILED
    status = mesh.manager.model_status("m")
    assert (status.status, status.errors) == (Status.LOADING_FAILED, ("m is broken",) * 2)
    assert [copy.state for copy in status.copies] == [CopyState.LOADING_FAILED] * 2
    mesh.mend("m")
    await mesh.pass_time(16 * 60_000)
    assert mesh.manager.model_status("m").status is Status.NOT_LOADED
    assert (await mesh.manager.ensure_loaded("m", last_used=0, sync=True)).status is Status.LOADED


async def test_a_model_that_nobody_takes(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(1)
    await mesh.start()
    for number in range(20):
        await mesh.register(f"m{number}")
        await mesh.manager.ensure_loaded(f"m{number}", last_used=0, sync=True)
    status = await mesh.manager.ensure_loaded("m0", last_used=mesh.clock.now() - HOUR, sync=True)
    assert status.status is Status.LOADING_FAILED
    assert status.errors[0].startswith("Nowhere available to load")
    assert mesh.manager.model_status("m0").status is Status.NOT_LOADED
    assert (await mesh.manager.ensure_loaded("m0", last_used=0, sync=True)).status is Status.LOADED


async def test_a_wait_that_is_given_up_leaves_the_load(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(1)
    await mesh.start()
    await mesh.register("m", load=False)
    mesh.instances[0].load_ms = 10_000
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mesh.manager.ensure_loaded("m", last_used=0, sync=True), 0.01)
    await mesh.until(lambda: mesh.manager.model_status("m").status is Status.LOADED)


async def test_a_model_that_is_unregistered_while_it_loads(make_mesh: MakeMesh) -> None:
    mesh = make_mesh(1)
    await mesh.start()
    mesh.instances[0].load_ms = 10_000
    waiting = asyncio.create_task(mesh.register("m"))
    await mesh.until(lambda: mesh.manager.model_status("m").status is Status.LOADING)
    await mesh.ledger.unregister("m", ACTOR)
    with pytest.raises(BridgeError, match="model not found") as refused:
        await waiting
    assert refused.value.code is Code.NOT_FOUND
    await mesh.until(lambda: not mesh.instances[0].present)
