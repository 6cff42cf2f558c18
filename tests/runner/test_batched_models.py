"""Batching in a real runner under a real tritonserver, called by many clients at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from model_repo_sync.batching import Batching
from model_repo_sync.protos.tensorflow_serving.session_bundle_config_pb2 import BatchingParameters
from model_repo_sync.protos.text import from_text
from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES, DType
from tests.runner.served import Refused, Served, floats, int32, strings
from tests.runner.test_answers import content
from tests.support.savedmodels import Array

pytestmark = pytest.mark.integration

Serve = Callable[..., Served]
Answer = list[Array] | Refused

PATIENT = "batch_timeout_micros { value: 200000 } max_enqueued_batches { value: 100 }"
"""Long enough that requests which are sent together meet; a full batch does not wait."""


def batched(serve: Serve, kind: str, parameters: str) -> Served:
    return serve(kind, batching=Batching(from_text(parameters, BatchingParameters, "test")))


def together(model: Served, requests: Sequence[Mapping[str, Array]], fetches: Sequence[str], **options: Any) -> Any:
    """The answers or refusals of requests that are sent at once."""
    futures = [model.start(feeds, fetches, **options) for feeds in requests]
    return [model.outcome(future, fetches) for future in futures]


def refusals(answers: Sequence[Answer]) -> list[tuple[int | None, str]]:
    return [(answer.code, answer.text) for answer in answers if isinstance(answer, Refused)]


def test_64_clients_share_at_most_8_runs(serve: Serve) -> None:
    model = batched(serve, "half_plus_two", f"max_batch_size {{ value: 16 }} {PATIENT}")
    requests = [{"x:0": floats(float(number), shape=[1, 1])} for number in range(64)]
    answers = together(model, requests, ["y:0"])
    assert answers == [[floats(number / 2 + 2, shape=[1, 1])] for number in range(64)]
    description = model.describe()
    assert description["requests"] == 64
    assert description["runs"] <= 8
    assert sum(int(rows) * count for rows, count in description["batch_sizes"].items()) == 64


def test_a_bad_row_fails_alone(serve: Serve) -> None:
    model = batched(serve, "failures", PATIENT)
    feeds, [fetch] = model.named("serving_default", {"x": floats(1)})
    [feed] = feeds
    values = [99.0 if number % 20 == 7 else number / 10 for number in range(64)]
    answers = together(model, [{feed: floats(value)} for value in values], [fetch])
    good = [[floats(value)] for value in values if value != 99]
    assert [answer for answer in answers if not isinstance(answer, Refused)] == good
    assert [code for code, text in refusals(answers) if "x too big" in text] == [3, 3, 3]


@pytest.fixture(scope="module")
def all_dtypes(serve: Serve) -> Served:
    return batched(serve, "dtypes", f"max_batch_size {{ value: 8 }} allowed_batch_sizes: 8 {PATIENT}")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
def test_every_dtype_in_a_padded_batch(all_dtypes: Served, dtype: DType) -> None:
    shapes = [(1, 3), (2, 3), (0, 3), (3, 3)]
    arrays = [Array(dtype.number, shape, content(dtype, math.prod(shape))) for shape in shapes]
    before = all_dtypes.describe()["batch_sizes"].get("8", 0)
    answers = together(all_dtypes, [{f"in_{dtype.name}:0": array} for array in arrays], [f"out_{dtype.name}:0"])
    assert answers == [[array] for array in arrays]
    assert all_dtypes.describe()["batch_sizes"] == {"8": before + 1}


def test_outputs_are_not_cropped_after_padding_to_a_shape(serve: Serve) -> None:
    model = batched(serve, "half_plus_two", f"max_batch_size {{ value: 2 }} pad_variable_length_inputs: true {PATIENT}")
    small, large = floats(1, 2, 3, 4, shape=[1, 2, 2]), floats(*[5] * 9, shape=[1, 3, 3])
    answers = together(model, [{"x:0": small}, {"x:0": large}], ["y:0"])
    expected = floats(2.5, 3, 2.5, 3.5, 4, 2.5, 2.5, 2.5, 2.5, shape=[1, 3, 3])
    assert answers == [[expected], [floats(*[4.5] * 9, shape=[1, 3, 3])]]
    assert model.describe()["runs"] == 1


def test_a_large_request_runs_in_parts(serve: Serve) -> None:
    model = batched(
        serve,
        "half_plus_two",
        "max_batch_size { value: 100 } enable_large_batch_splitting { value: true } "
        "max_execution_batch_size { value: 16 }",
    )
    rows = floats(*map(float, range(100)), shape=[100, 1])
    assert model.call({"x:0": rows}, ["y:0"]) == [floats(*(row / 2 + 2 for row in range(100)), shape=[100, 1])]
    assert model.describe()["batch_sizes"] == {"4": 1, "16": 6}
    [refusal] = refusals(together(model, [{"x:0": floats(*[0.0] * 101)}], ["y:0"]))
    assert refusal == (3, "Task size 101 is larger than maximum input batch size 100")


SHAPES = (
    "Tensors with name 'x:0' from different tasks have different shapes and padding is turned off. Set "
    "pad_variable_length_inputs to true, or ensure that all tensors with the same name have equal dimensions starting "
    "with the first dim."
)
EQUAL = "Batching Run() input tensors must have equal 0th-dimension size"
SCALAR = "Batching Run() input tensors must have at least one dimension"
ONE = floats(1.0, shape=[1, 1])


@pytest.fixture(scope="module")
def pairs(serve: Serve) -> Served:
    """half_plus_two, whose batches are full with two rows."""
    return batched(serve, "half_plus_two", f"max_batch_size {{ value: 2 }} {PATIENT}")


@pytest.mark.parametrize(
    ("requests", "fetches", "code", "text"),
    [
        ([{"x:0": ONE}, {"x:0": floats(1, 2, shape=[1, 2])}], ["y:0"], 9, SHAPES),
        ([{"x:0": ONE, "x2:0": floats(1, 2, shape=[2, 1])}], ["y:0", "y3:0"], 3, EQUAL),
        ([{"x:0": floats(1, shape=[])}], ["y:0"], 3, SCALAR),
        ([{}], ["y:0"], 3, "Batching Run() must have at least one input tensor"),
    ],
)
def test_requests_that_cannot_be_batched(
    pairs: Served, requests: Sequence[Mapping[str, Array]], fetches: Sequence[str], code: int, text: str
) -> None:
    assert refusals(together(pairs, requests, fetches)) == [(code, text)] * len(requests)


def test_outputs_without_a_row_for_each_row(serve: Serve) -> None:
    model = batched(serve, "failures", "")
    feeds, fetches = model.named("reshape", {"x": floats(1, 2), "shape": int32(2)})
    [x, shape] = feeds
    feeds = {x: floats(1, 2), shape: Array(3, (2,), b"\1\0\0\0\2\0\0\0")}
    assert refusals(together(model, [feeds], fetches)) == [
        (
            9,
            "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input "
            "tensors",
        )
    ]


def test_a_deadline_that_passes_in_the_queue(serve: Serve) -> None:
    model = batched(serve, "half_plus_two", PATIENT)
    answers = together(model, [{"x:0": ONE}] * 2, ["y:0"], timeout_microseconds=50_000)
    assert refusals(answers) == [(8, "Run() timeout exceeded while waiting in batching queue")] * 2
    assert model.call({"x:0": ONE}, ["y:0"]) == [floats(2.5, shape=[1, 1])]


def test_memory_does_not_grow_with_batches(all_dtypes: Served) -> None:
    numbers = {"in_float:0": Array(1, (1, 1 << 18), bytes(1 << 20))}
    words = {"in_string:0": strings(*[b"s" * 1000] * 1000, shape=[1, 1000])}

    def burst(times: int) -> None:
        for _ in range(times):
            assert not refusals(together(all_dtypes, [numbers] * 4, ["out_float:0"]))
            assert not refusals(together(all_dtypes, [words] * 4, ["out_string:0"]))

    burst(5)
    before = all_dtypes.describe()["memory_bytes"]
    burst(20)
    assert all_dtypes.describe()["memory_bytes"] - before < 40 << 20
