from __future__ import annotations

import struct
from collections.abc import Sequence

import orjson
import pytest

from bridge.errors import Code
from bridge.serving.control import RoutesView
from bridge.serving.legs import LegPool
from bridge.serving.runners import Runners
from bridge.tfserving.batching_metrics import BatchingMetrics
from bridge.tfserving.metrics import ServingMetrics
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from tests.serving import snapshots


class Runner:
    """A leg to a runner that tells of its batches, or that is gone."""

    def __init__(self) -> None:
        self.pid = 7
        self.sizes: dict[str, int] | None = {}

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        if self.sizes is None:
            raise CallError("gone", Code.UNAVAILABLE, Fault.RUNNER)
        text = orjson.dumps({"pid": self.pid, "batch_sizes": self.sizes})
        return [WireTensor("bridge.runner", "BYTES", (1,), struct.pack("<I", len(text)) + text)]

    async def close(self) -> None: ...


def batches(page: bytes) -> tuple[Sequence[str], Sequence[str]]:
    lines = page.decode().splitlines()
    prefix = ":tensorflow:serving:batching_session:"
    runs = [line for line in lines if line.startswith(f"{prefix}wrapped_run_count")]
    sizes = [line for line in lines if line.startswith(f"{prefix}processed_batch_size")]
    return [line.rpartition(" ")[2] for line in runs], [line.rpartition(" ")[2] for line in sizes]


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def metrics(runner: Runner) -> BatchingMetrics:
    view = RoutesView()
    view.publish(snapshots.routes(snapshots.model("half", [snapshots.servable()])))
    return BatchingMetrics(Runners(view, LegPool(lambda instance: runner)), ServingMetrics())


async def test_batches_add_up_over_the_lives_of_a_runner(runner: Runner, metrics: BatchingMetrics) -> None:
    assert batches(await metrics.page()) == ([], [])
    runner.sizes = {"1": 2, "4": 1}
    await metrics.page()
    runner.sizes = {"1": 2, "4": 3}
    runs, sizes = batches(await metrics.page())
    assert runs == ["5"]
    assert sizes[:4] == ["0", "2", "2", "5"], "up to 1, 2, 4 and 8, the bounds not included"
    assert sizes[-3:] == ["5", "14", "5"], "infinity, sum and count"
    runner.pid, runner.sizes = 8, {"1": 1}
    assert batches(await metrics.page())[0] == ["6"]


async def test_a_runner_that_is_silent_keeps_nobody_waiting(runner: Runner, metrics: BatchingMetrics) -> None:
    runner.sizes = {"2": 1}
    await metrics.page()
    runner.sizes = None
    assert batches(await metrics.page())[0] == ["1"]


async def test_without_batching_nobody_is_asked() -> None:
    assert batches(await BatchingMetrics(None, ServingMetrics()).page()) == ([], [])
