"""Warmups against a double of a runner that computes y = x + 1 and counts what it is asked."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle.servable import Servable, preparer
from bridge.lifecycle.warmup import MOST_RECORDS, REQUESTS, Warmup
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from model_repo_sync.protos.tensorflow_serving.prediction_log_pb2 import PredictionLog
from model_repo_sync.tfrecord import frame
from model_repo_sync.triton_config import RunnerOptions
from tests.model_repo_sync.builders import identity, write
from tests.support.warmups import multi_inference, on_examples, predict
from tests.support.warmups import write as write_warmup

DT_FLOAT, DT_STRING = 1, 7
EXAMPLES = {"inputs": ("examples:0", DT_STRING)}
SCORES = {"scores": ("scores:0", DT_FLOAT)}
VALUES = {"outputs": ("values:0", DT_FLOAT)}


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def servable(tmp_path: Path) -> Servable:
    """The signatures `serving_default` (x -> y), `classify` and `regress`."""
    builder = identity().placeholder("examples", DT_STRING).op("Parse", {"output": DT_FLOAT})
    builder.node("scores", "Parse", "examples").node("values", "Parse", "examples")
    builder.signature("classify", EXAMPLES, SCORES, "tensorflow/serving/classify")
    builder.signature("regress", EXAMPLES, VALUES, "tensorflow/serving/regress")
    path = write(tmp_path / "1", builder)
    return preparer("0123abcd", RunnerOptions())("half", 7, str(path))


class Runner:
    """Answers one row per row. A call for an output in `failures` is refused."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failures: dict[str, CallError] = {}
        self.timeouts: set[float] = set()

    async def __call__(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        assert call.model == "tfs.0123abcd.half.7"
        self.asked.append(list(call.outputs))
        self.timeouts.add(timeout)
        for name in call.outputs:
            if name in self.failures:
                raise self.failures[name]
        return [self._output(call, name) for name in call.outputs]

    def _output(self, call: ModelCall, name: str) -> WireTensor:
        [fed] = call.inputs
        if name == "y:0":
            values = np.frombuffer(fed.data, np.float32) + 1
            return WireTensor(name, "FP32", fed.shape, values.astype(np.float32).tobytes())
        shape = (*fed.shape, 1) if name == "scores:0" else fed.shape
        return WireTensor(name, "FP32", shape, bytes(4 * fed.shape[0]))


ALL_KINDS = [
    predict(),
    on_examples("classify_log", "classify"),
    on_examples("regress_log", "regress"),
    multi_inference(("classify", "classify"), ("regress", "regress")),
    PredictionLog(),
]


class Warmups(list[tuple[str, str, int]]):
    """What the observer was told, without the times."""

    def __call__(self, path: str, status: str, records: int, seconds: float) -> None:
        assert seconds >= 0
        self.append((path, status, records))


async def replay(
    servable: Servable,
    executor: Executor,
    runner: Runner,
    *,
    iterations: int = 1,
    check_method_names: bool = False,
) -> Warmups:
    told = Warmups()
    warmup = Warmup(executor, told, iterations=iterations, check_method_names=check_method_names)
    await warmup.replay(servable, runner, longest=9.0)
    return told


@pytest.mark.parametrize("iterations", [1, 3])
async def test_every_kind_of_request_is_replayed(
    servable: Servable, executor: Executor, iterations: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_warmup(servable.saved_model.path, ALL_KINDS * 10)
    runner = Runner()
    with caplog.at_level(logging.INFO):
        told = await replay(servable, executor, runner, iterations=iterations)
    runs = [["y:0"], ["scores:0"], ["values:0"], ["scores:0", "values:0"]]
    assert runner.asked == [run for run in runs for _ in range(iterations)] * 10
    assert runner.timeouts == {9.0}
    assert told == [(servable.saved_model.path, "OK", 50)]
    assert f"Starting to read warmup data for model at {path} with model-warmup-options" in caplog.text
    assert f"Finished reading warmup data for model at {path}. Number of warmup records read: 50." in caplog.text


async def test_without_a_file_there_is_nothing_to_do(
    servable: Servable, executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert await replay(servable, executor, Runner()) == []
    assert f"No warmup data file found at {servable.saved_model.path}/{REQUESTS}" in caplog.text


async def test_an_empty_file_is_fine(servable: Servable, executor: Executor) -> None:
    write_warmup(servable.saved_model.path, [])
    assert await replay(servable, executor, Runner()) == [(servable.saved_model.path, "OK", 0)]


STREAMED, SESSION_RUN = PredictionLog(), PredictionLog()
STREAMED.predict_streamed_log.SetInParent()
SESSION_RUN.session_run_log.SetInParent()

REFUSED: Mapping[str, tuple[Sequence[PredictionLog], bytes, Code, str]] = {
    "session run": ([SESSION_RUN], b"", Code.UNIMPLEMENTED, "Unsupported log_type for warmup: 5"),
    "streamed": ([STREAMED], b"", Code.UNIMPLEMENTED, "Unsupported log_type for warmup: 7"),
    "no message": (
        [],
        frame(b"junk\xff"),
        Code.INVALID_ARGUMENT,
        "Failed to parse warmup record: junk\N{REPLACEMENT CHARACTER} from {path}",
    ),
    "no records": (
        [],
        b"These are no records, only words",
        Code.DATA_LOSS,
        "corrupted record at 0 (Is this even a TFRecord file?). Please verify your warmup data is in TFRecord format.",
    ),
    "damage behind a record": (
        [PredictionLog()],
        b"These are no records, only words",
        Code.DATA_LOSS,
        "corrupted record at 16. Please verify your warmup data is in TFRecord format.",
    ),
    "too many": (
        [PredictionLog()] * (MOST_RECORDS + 1),
        b"",
        Code.INVALID_ARGUMENT,
        "Number of warmup records exceeds the maximum (1000) at {path}",
    ),
    "unknown signature": (
        [predict(signature="nope")],
        b"",
        Code.FAILED_PRECONDITION,
        'Serving signature key "nope" not found.',
    ),
    "unknown input": (
        [predict(alias="z")],
        b"",
        Code.INVALID_ARGUMENT,
        "Signature input alias: x(feed name: x:0) not found in request and no default value provided. Inputs expected "
        "to be in the request {{z}}, or default input alias set: ",
    ),
    "wrong dtype": (
        [predict(dtype=3)],
        b"",
        Code.INVALID_ARGUMENT,
        "Expects arg[0] to be float but int32 is provided",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_records_that_cannot_be_used(servable: Servable, executor: Executor, case: str) -> None:
    logs, raw, code, sentence = REFUSED[case]
    path = write_warmup(servable.saved_model.path, logs, raw)
    with pytest.raises(BridgeError) as refused:
        await replay(servable, executor, Runner())
    assert (refused.value.code, refused.value.message) == (code, sentence.format(path=path))


async def test_the_record_past_the_most_is_replayed_before_it_is_refused(
    servable: Servable, executor: Executor
) -> None:
    write_warmup(servable.saved_model.path, [predict()] * (MOST_RECORDS + 2))
    runner = Runner()
    with pytest.raises(BridgeError, match="exceeds the maximum"):
        await replay(servable, executor, runner)
    assert len(runner.asked) == MOST_RECORDS + 1


@pytest.mark.parametrize(
    "failure",
    [
        CallError("assertion failed", Code.INVALID_ARGUMENT, Fault.MODEL),
        CallError("Stub process is not healthy", Code.UNAVAILABLE, Fault.RUNNER),
    ],
    ids=lambda error: error.fault.value,
)
async def test_the_first_request_that_fails_ends_it(servable: Servable, executor: Executor, failure: CallError) -> None:
    write_warmup(servable.saved_model.path, ALL_KINDS)
    runner = Runner()
    runner.failures["scores:0"] = failure
    with pytest.raises(CallError) as raised:
        await replay(servable, executor, runner)
    assert raised.value is failure
    assert runner.asked == [["y:0"], ["scores:0"]]


async def test_method_names_are_checked_as_on_the_request_path(servable: Servable, executor: Executor) -> None:
    write_warmup(servable.saved_model.path, [on_examples("regress_log", "classify")])
    with pytest.raises(BridgeError) as refused:
        await replay(servable, executor, Runner(), check_method_names=True)
    assert refused.value.code is Code.INVALID_ARGUMENT


async def test_a_file_that_cannot_be_read(servable: Servable, executor: Executor) -> None:
    path = Path(servable.saved_model.path, REQUESTS)
    path.mkdir(parents=True)
    with pytest.raises(BridgeError) as refused:
        await replay(servable, executor, Runner())
    assert (refused.value.code, refused.value.message) == (Code.FAILED_PRECONDITION, f"{path}; Is a directory")
