from __future__ import annotations

import pytest

from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters


def test_parameters_survive_their_journey_as_json() -> None:
    parameters = BatchingParameters(
        max_batch_size=4,
        batch_timeout_micros=1500,
        max_enqueued_batches=7,
        num_batch_threads=3,
        thread_pool_name="pool",
        allowed_batch_sizes=(2, 4),
        pad_variable_length_inputs=True,
        enable_large_batch_splitting=True,
        max_execution_batch_size=2,
        isolate_failures=True,
    )
    assert BatchingParameters.loads(parameters.dumps()) == parameters


def test_an_empty_object_means_the_defaults_of_tf_serving() -> None:
    assert BatchingParameters.loads("{}") == BatchingParameters(1000, 0, 10, 0, "batch_threads")


@pytest.mark.parametrize("text", ["", "[]", "7", '{"max_batch": 7}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"batching|Expecting value"):
        BatchingParameters.loads(text)


@pytest.mark.parametrize(
    ("allowed", "rows", "expected"),
    [
        ((), 3, 3),
        ((2, 4), 1, 2),
        ((2, 4), 2, 2),
        ((2, 4), 3, 4),
        ((1, 3, 4), 2, 3),
        ((4, 2), 3, 4),
        ((4, 2), 1, 4),
        ((2, 4), 5, 5),
        ((2, 4), 0, 0),
    ],
)
def test_batches_are_padded_to_the_first_allowed_size_that_holds_them(
    allowed: tuple[int, ...], rows: int, expected: int
) -> None:
    assert BatchingParameters(allowed_batch_sizes=allowed).padded_size(rows) == expected


@pytest.mark.parametrize(("splitting", "expected"), [(False, 8), (True, 3)])
def test_only_splitting_limits_what_runs(splitting: bool, expected: int) -> None:
    parameters = BatchingParameters(
        max_batch_size=8, enable_large_batch_splitting=splitting, max_execution_batch_size=3
    )
    assert parameters.execution_limit == expected
