from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bridge.codec.predict import ModelSpec, PredictCall
from bridge.errors import BridgeError, Code
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore, InferenceSettings
from bridge.serving.inference import Inference, Prediction
from bridge.serving.legs import LegPool
from bridge.serving.routes import InstanceRoute, Routes
from bridge.triton.calls import CallError, Fault
from model_repo_sync.protos.tensorflow import tensor_pb2
from tests.serving import snapshots
from tests.serving.half_plus_two import FakeLeg
from tests.serving.waiting import until

X = tensor_pb2.TensorProto(
    dtype=1, tensor_shape=tensor_pb2.TensorProto(tensor_shape={"dim": [{"size": 3}]}).tensor_shape, float_val=[1, 2, 5]
).SerializeToString()
Y = struct.pack("<3f", 2.5, 3.0, 4.5)


@dataclass
class Fleet:
    """A request path over fake legs. It is the Control too, and keeps what it was told."""

    view: RoutesView = field(default_factory=RoutesView)
    legs: dict[str, FakeLeg] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)
    core: InferenceCore = field(init=False)
    on_failure: Callable[[], None] | None = None

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        self.failures.append((triton_name, instance))
        if self.on_failure is not None:
            self.on_failure()

    def drained(self, router: str, epoch: int) -> None:
        raise AssertionError("the view tells this, not the request path")

    def open_leg(self, instance: InstanceRoute) -> FakeLeg:
        return self.legs.setdefault(instance.name, FakeLeg(instance))

    def leg(self, name: str) -> FakeLeg:
        return self.open_leg(snapshots.instance(name))

    def predict(self, spec: ModelSpec | None = None, timeout: float | None = None) -> Awaitable[Prediction]:
        call = PredictCall(spec or ModelSpec("half"), {"x": memoryview(X)}, ())
        return Inference(self.core).predict(call, timeout)

    def build(self, **settings: Any) -> Fleet:
        self.core = InferenceCore(self.view, LegPool(self.open_leg), self, InferenceSettings(**settings))
        return self


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet().build(recovery_wait=5.0)
    fleet.view.publish(one_copy())
    yield fleet
    await fleet.core.close()


def one_copy(
    epoch: int = 1, version: int = 1, instances: tuple[str, ...] = ("one",), *, stateful: bool = False
) -> Routes:
    servable = snapshots.servable(version=version, instances=instances, stateful=stateful)
    return snapshots.routes(snapshots.model("half", [servable]), epoch=epoch)


def fault(kind: Fault, *, sent: bool = True, code: Code = Code.UNAVAILABLE, text: str = "it died") -> CallError:
    return CallError(text, code, kind, sent=sent)


async def test_predicts(fleet: Fleet) -> None:
    answer = await fleet.predict()
    assert (answer.model, answer.version, answer.signature) == ("half", 1, "serving_default")
    assert [(alias, tensor.shape, bytes(tensor.data)) for alias, tensor in answer.outputs] == [("y", (3,), Y)]
    assert fleet.leg("one").calls[0].model == "tfs.00000000.half.1"
    assert fleet.view.in_flight == 0


async def test_copies_take_turns_and_the_least_busy_goes_first(fleet: Fleet) -> None:
    fleet.view.publish(one_copy(2, instances=("one", "two")))
    for _ in range(4):
        await fleet.predict()
    assert [len(fleet.leg(name).calls) for name in ("one", "two")] == [2, 2]
    fleet.leg("one").hold = asyncio.Event()
    waiting = [asyncio.ensure_future(fleet.predict()) for _ in range(5)]
    await until(lambda: sum(task.done() for task in waiting) == 4)
    assert len(fleet.leg("one").calls) == 3
    fleet.leg("one").hold.set()
    await asyncio.gather(*waiting)


async def test_the_deadline_travels_to_triton(fleet: Fleet) -> None:
    await fleet.predict(timeout=7)
    await fleet.predict()
    with_deadline, without = fleet.leg("one").timeouts
    assert 6 < with_deadline <= 7
    assert 3599 < without <= 3600


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 0.05])
async def test_past_the_deadline_the_text_is_tensorflows(fleet: Fleet, timeout: float) -> None:
    fleet.leg("one").hold = asyncio.Event()
    with pytest.raises(BridgeError, match=r"^Timed out waiting for notification$") as caught:
        await fleet.predict(timeout=timeout)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    assert fleet.failures == []


async def test_cancellation_reaches_triton(fleet: Fleet) -> None:
    fleet.leg("one").hold = asyncio.Event()
    task = asyncio.ensure_future(fleet.predict())
    await until(lambda: bool(fleet.leg("one").calls))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fleet.leg("one").cancelled == 1
    assert fleet.view.in_flight == 0


@pytest.mark.parametrize(
    "error",
    [
        fault(Fault.MODEL, code=Code.INVALID_ARGUMENT, text="You must feed a value"),
        fault(Fault.MODEL, code=Code.DEADLINE_EXCEEDED, text="the model's own"),
        fault(Fault.BUSY, text="Exceeds maximum queue size"),
    ],
)
async def test_answers_of_the_model_and_of_a_full_queue_are_final(fleet: Fleet, error: CallError) -> None:
    fleet.leg("one").faults = [error]
    with pytest.raises(BridgeError) as caught:
        await fleet.predict()
    assert (caught.value.code, caught.value.message) == (error.code, error.message)
    assert len(fleet.leg("one").calls) == 1
    assert fleet.failures == []
    await fleet.predict()


@pytest.mark.parametrize(
    "error",
    [fault(Fault.NOT_READY, code=Code.NOT_FOUND), fault(Fault.CONNECTION, sent=False)],
    ids=["unknown", "refused"],
)
async def test_what_did_not_run_goes_to_another_copy(fleet: Fleet, error: CallError) -> None:
    servable = snapshots.servable(instances=("one", "two"), stateful=True)
    fleet.view.publish(snapshots.routes(snapshots.model("half", [servable]), epoch=2))
    fleet.leg("one").faults = [error]
    fleet.leg("two").faults = [error]
    assert (await fleet.predict()).version == 1
    assert len(fleet.failures) == 2


async def test_a_request_waits_for_its_copy_to_come_back(fleet: Fleet) -> None:
    fleet.view.publish(one_copy(2, instances=()))
    task = asyncio.ensure_future(fleet.predict(ModelSpec("half", version=1)))
    await asyncio.sleep(0)
    fleet.view.publish(one_copy(3, instances=()))
    await asyncio.sleep(0.01)
    assert not task.done()
    assert fleet.view.drained_epoch() == 3
    fleet.view.publish(one_copy(4))
    assert (await task).version == 1


@pytest.mark.parametrize(("wait", "timeout"), [(0.05, None), (5.0, 0.05)])
@pytest.mark.parametrize("spec", [ModelSpec("half"), ModelSpec("half", version=2), ModelSpec("half", label="new")])
async def test_a_lost_version_is_unavailable(spec: ModelSpec, wait: float, timeout: float | None) -> None:
    fleet = Fleet().build(recovery_wait=wait)
    lost, old = snapshots.servable(version=2, instances=()), snapshots.servable(version=1)
    fleet.view.publish(snapshots.routes(snapshots.model("half", [lost, old], labels={"new": 2})))
    with pytest.raises(BridgeError, match=r"^Model half version 2 has no ready copy on Triton now") as caught:
        await fleet.predict(spec, timeout)
    assert caught.value.code is Code.UNAVAILABLE
    assert not fleet.leg("one").calls


async def test_a_version_that_goes_while_a_request_waits_is_not_found(fleet: Fleet) -> None:
    fleet.view.publish(one_copy(2, instances=()))
    task = asyncio.ensure_future(fleet.predict(ModelSpec("half", version=1)))
    await asyncio.sleep(0)
    fleet.view.publish(one_copy(3, version=2))
    with pytest.raises(BridgeError, match=r"Specific\(half, 1\)"):
        await task


@pytest.mark.parametrize("error", [fault(Fault.RUNNER, code=Code.INTERNAL), fault(Fault.CONNECTION)])
async def test_a_stateless_request_is_sent_again_when_the_copy_is_back(fleet: Fleet, error: CallError) -> None:
    def reload() -> None:
        fleet.view.publish(one_copy(2, instances=()))
        asyncio.get_running_loop().call_later(0.01, fleet.view.publish, one_copy(3))

    fleet.on_failure = reload
    fleet.leg("one").faults = [error]
    assert (await fleet.predict()).version == 1
    assert fleet.failures == [("tfs.00000000.half.1", "one")]


async def test_a_request_that_may_have_run_twice_is_not_sent_a_third_time(fleet: Fleet) -> None:
    fleet.view.publish(one_copy(2, instances=("one", "two")))
    for name in ("one", "two"):
        fleet.leg(name).faults = [fault(Fault.RUNNER, code=Code.INTERNAL)]
    with pytest.raises(BridgeError, match="whether the request ran is unknown: it died") as caught:
        await fleet.predict()
    assert caught.value.code is Code.UNAVAILABLE


async def test_a_stateful_request_that_may_have_run_is_not_sent_again(fleet: Fleet) -> None:
    fleet.view.publish(one_copy(2, instances=("one", "two"), stateful=True))
    for name in ("one", "two"):
        fleet.leg(name).faults = [fault(Fault.CONNECTION)]
    with pytest.raises(BridgeError, match=r"^Model half version 1 lost its Triton copy") as caught:
        await fleet.predict()
    assert caught.value.code is Code.UNAVAILABLE
    assert sum(len(fleet.leg(name).calls) for name in ("one", "two")) == 1


async def test_a_dead_copy_is_avoided_until_it_is_published_anew(fleet: Fleet) -> None:
    fleet.leg("one").faults = [fault(Fault.RUNNER)]
    fleet.view.publish(one_copy(2, instances=("one", "two")))
    for _ in range(6):
        await fleet.predict()
    assert len(fleet.leg("one").calls) == 1
    fleet.view.publish(one_copy(3, instances=("two",)))
    fleet.view.publish(one_copy(4, instances=("one", "two")))
    for _ in range(2):
        await fleet.predict()
    assert len(fleet.leg("one").calls) == 2


async def test_a_dead_runner_ends_the_calls_that_went_before(fleet: Fleet) -> None:
    leg = fleet.leg("one")
    leg.hold = asyncio.Event()
    fleet.view.publish(one_copy(2, stateful=True))
    hanging = [asyncio.ensure_future(fleet.predict()) for _ in range(3)]
    await until(lambda: len(leg.calls) == 3)
    leg.faults = [fault(Fault.RUNNER, text="Stub process is not healthy.")]
    results = await asyncio.gather(fleet.predict(), *hanging, return_exceptions=True)
    assert [result.code for result in results if isinstance(result, BridgeError)] == [Code.UNAVAILABLE] * 4
    assert leg.cancelled == 3


async def test_a_copy_that_the_control_plane_lost_ends_its_calls(fleet: Fleet) -> None:
    leg = fleet.leg("one")
    leg.hold = asyncio.Event()
    task = asyncio.ensure_future(fleet.predict())
    await until(lambda: len(leg.calls) == 1)
    fleet.view.lose("tfs.00000000.half.1", "one")
    await until(lambda: leg.cancelled == 1)
    leg.hold = None
    fleet.view.publish(one_copy(2, instances=()))
    fleet.view.publish(one_copy(3))
    assert (await task).version == 1


async def test_a_copy_takes_a_bounded_number_of_calls() -> None:
    fleet = Fleet().build(queue_size=2)
    fleet.view.publish(one_copy())
    leg = fleet.leg("one")
    leg.hold = asyncio.Event()
    waiting = [asyncio.ensure_future(fleet.predict()) for _ in range(2)]
    await until(lambda: len(leg.calls) == 2)
    with pytest.raises(BridgeError, match=r"^2 requests wait for tfs") as caught:
        await fleet.predict()
    assert caught.value.code is Code.UNAVAILABLE
    leg.hold.set()
    await asyncio.gather(*waiting)


async def test_late_news_of_a_dead_process_do_not_harm_its_successor(fleet: Fleet) -> None:
    leg = fleet.leg("one")
    leg.hold = asyncio.Event()
    task = asyncio.ensure_future(fleet.predict())
    await until(lambda: len(leg.calls) == 1)
    fleet.view.publish(one_copy(2, instances=()))
    fleet.view.publish(one_copy(3))
    leg.late_fault = fault(Fault.RUNNER, text="Stub process is not healthy.")
    leg.hold.set()
    assert (await task).version == 1
    assert fleet.failures == []
    assert len(leg.calls) == 2


async def test_copies_with_old_calls_are_pinged() -> None:
    fleet = Fleet().build(ping_after=0.02)
    fleet.view.publish(one_copy(stateful=True))
    fleet.core.start()
    leg = fleet.leg("one")
    leg.hold = asyncio.Event()
    task = asyncio.ensure_future(fleet.predict())
    await asyncio.sleep(0.1)
    assert not task.done()
    leg.ping_fault = fault(Fault.RUNNER, text="Stub process is not healthy.")
    with pytest.raises(BridgeError, match="Stub process is not healthy"):
        await task
    await fleet.core.close()
    assert leg.closed


async def test_legs_of_instances_that_leave_are_closed_after_their_calls(fleet: Fleet) -> None:
    leg = fleet.leg("one")
    leg.hold = asyncio.Event()
    task = asyncio.ensure_future(fleet.predict())
    await until(lambda: len(leg.calls) == 1)
    fleet.view.publish(snapshots.routes(epoch=2, instances=("two",)))
    assert not leg.closed
    leg.hold.set()
    await task
    await until(lambda: leg.closed)


async def test_a_request_waits_for_the_first_load(fleet: Fleet) -> None:
    loading = replace(snapshots.model("half", []), awaited=(1,))
    fleet.view.publish(snapshots.routes(loading, epoch=2))
    task = asyncio.ensure_future(fleet.predict())
    await asyncio.sleep(0)
    fleet.view.publish(snapshots.routes(loading, epoch=3))
    await asyncio.sleep(0.01)
    assert not task.done()
    assert fleet.view.drained_epoch() == 3
    fleet.view.publish(one_copy(4))
    assert (await task).version == 1


async def test_a_first_load_that_takes_long_is_unavailable() -> None:
    fleet = Fleet().build(recovery_wait=0.05)
    fleet.view.publish(snapshots.routes(replace(snapshots.model("half", []), unread=True)))
    with pytest.raises(BridgeError, match=r"^Model half is not loaded yet\.$") as caught:
        await fleet.predict()
    assert caught.value.code is Code.UNAVAILABLE
