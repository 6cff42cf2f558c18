"""Requests for registered models: what they ask of the control plane, and how long they wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from bridge.codec.model_spec import ModelSpec
from bridge.codec.predict import PredictCall
from bridge.errors import BridgeError, Code
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore, InferenceSettings
from bridge.serving.inference import Inference, Prediction
from bridge.serving.legs import LegPool
from bridge.serving.routes import LoadFailure, RegisteredRoute, VModelRoute
from bridge.triton.calls import CallError, Fault
from tests.serving import snapshots
from tests.serving.half_plus_two import FakeLeg
from tests.serving.test_infer import X
from tests.serving.waiting import until


@dataclass
class Mesh:
    """A request path over one fake leg, and its control plane, which does what the test says."""

    view: RoutesView = field(default_factory=RoutesView)
    leg: FakeLeg = field(default_factory=lambda: FakeLeg(snapshots.instance("one")))
    demands: list[str] = field(default_factory=list)
    uses: list[tuple[str, int]] = field(default_factory=list)
    epoch: int = 0
    core: InferenceCore = field(init=False)

    def __post_init__(self) -> None:
        settings = InferenceSettings(recovery_wait=0.1, load_wait=5.0)
        self.core = InferenceCore(self.view, LegPool(lambda instance: self.leg), self, settings)

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None: ...

    def drained(self, router: str, epoch: int) -> None: ...

    def load_on_demand(self, model_id: str) -> None:
        self.demands.append(model_id)

    def used(self, model_id: str, count: int) -> None:
        self.uses.append((model_id, count))

    def publish(self, active: str = "m", *, loaded: bool = False, failure: LoadFailure | None = None) -> None:
        """The models m and n, loaded or not, and the vmodel v."""
        self.epoch += 1
        models = {
            id: RegisteredRoute(
                id,
                servable=replace(snapshots.servable(id), triton_name=f"mm.{id}.{self.epoch}") if loaded else None,
                failure=failure,
            )
            for id in ("m", "n")
        }
        routes = snapshots.routes(epoch=self.epoch)
        self.view.publish(replace(routes, registered=models, vmodels={"v": VModelRoute("v", active)}))

    def ask(self, name: str, timeout: float | None = 5.0) -> asyncio.Task[Prediction]:
        call = PredictCall(ModelSpec(name), {"x": memoryview(X)}, ())
        return asyncio.ensure_future(Inference(self.core).predict(call, timeout))


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    mesh = Mesh()
    mesh.publish()
    yield mesh
    await mesh.core.close()


@pytest.mark.parametrize("name", ["m", "v"])
async def test_a_request_waits_for_the_load_that_it_demands(mesh: Mesh, name: str) -> None:
    asked = mesh.ask(name)
    await until(lambda: mesh.demands == ["m"])
    assert mesh.view.in_flight == 0
    mesh.publish()
    mesh.publish(loaded=True)
    assert (await asked).model == name
    assert mesh.demands == ["m"]
    assert mesh.uses == [("m", 1)]


async def test_a_loaded_model_is_not_demanded(mesh: Mesh) -> None:
    mesh.publish(loaded=True)
    await mesh.ask("m")
    await mesh.ask("v")
    assert mesh.demands == []
    assert mesh.uses == [("m", 1), ("m", 1)]


async def test_a_failed_demand_is_the_answer(mesh: Mesh) -> None:
    mesh.publish(failure=LoadFailure(7, Code.INTERNAL, "of an earlier demand"))
    asked = mesh.ask("v")
    await until(lambda: mesh.demands == ["m"])
    mesh.publish(failure=LoadFailure(7, Code.INTERNAL, "of an earlier demand"))
    await asyncio.sleep(0)
    mesh.publish(failure=LoadFailure(8, Code.UNAVAILABLE, "Nowhere available to load"))
    with pytest.raises(BridgeError) as caught:
        await asked
    assert (caught.value.code, caught.value.message) == (Code.UNAVAILABLE, "Nowhere available to load")


async def test_numbers_of_failures_may_begin_anew(mesh: Mesh) -> None:
    mesh.publish(failure=LoadFailure(7, Code.INTERNAL, "of an earlier registration"))
    asked = mesh.ask("m")
    await until(lambda: mesh.demands == ["m"])
    mesh.publish(failure=LoadFailure(1, Code.INTERNAL, "of this one"))
    with pytest.raises(BridgeError, match=r"^of this one$"):
        await asked


async def test_a_vmodel_that_changes_meanwhile_demands_its_new_model(mesh: Mesh) -> None:
    asked = mesh.ask("v")
    await until(lambda: mesh.demands == ["m"])
    mesh.publish(active="n", failure=LoadFailure(1, Code.INTERNAL, "m's"))
    await until(lambda: mesh.demands == ["m", "n"])
    mesh.publish(active="n", loaded=True)
    await asked
    assert mesh.uses == [("n", 1)]


async def test_a_model_that_came_and_went_is_demanded_again(mesh: Mesh) -> None:
    asked = mesh.ask("m")
    await until(lambda: len(mesh.demands) == 2)
    mesh.publish(loaded=True)
    await asked


async def test_the_clients_deadline_ends_the_wait(mesh: Mesh) -> None:
    with pytest.raises(BridgeError) as caught:
        await mesh.ask("m", timeout=0.05)
    assert caught.value.code is Code.DEADLINE_EXCEEDED


async def test_so_does_the_longest_wait_for_a_load() -> None:
    mesh = Mesh()
    mesh.core = InferenceCore(mesh.view, LegPool(lambda instance: mesh.leg), mesh, InferenceSettings(load_wait=0.05))
    mesh.publish()
    with pytest.raises(BridgeError) as caught:
        await mesh.ask("m")
    assert (caught.value.code, caught.value.message) == (
        Code.UNAVAILABLE,
        "Model m was not loaded within 0.05 seconds.",
    )
    await mesh.core.close()


async def test_a_lost_copy_is_met_with_another_load(mesh: Mesh) -> None:
    mesh.publish(loaded=True)
    mesh.leg.faults = [CallError("unknown model", Code.UNAVAILABLE, Fault.NOT_READY)]
    asked = mesh.ask("v")
    await until(lambda: len(mesh.leg.calls) == 1)
    mesh.publish()
    await until(lambda: mesh.demands == ["m"])
    mesh.publish(loaded=True)
    assert (await asked).model == "v"


async def test_a_registered_model_that_is_removed_meanwhile(mesh: Mesh) -> None:
    asked = mesh.ask("m")
    await until(lambda: mesh.demands == ["m"])
    mesh.view.publish(snapshots.routes(epoch=99))
    with pytest.raises(BridgeError) as caught:
        await asked
    assert caught.value.code is Code.NOT_FOUND
