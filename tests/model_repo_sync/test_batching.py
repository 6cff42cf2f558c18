from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from model_repo_sync.batching import Batching
from model_repo_sync.protos.tensorflow_serving.session_bundle_config_pb2 import BatchingParameters as Message
from model_repo_sync.protos.text import from_text
from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters
from model_repo_sync.saved_model import SavedModel, SavedModelError, read_saved_model
from tests.model_repo_sync.builders import write


def message(text: str) -> Message:
    return from_text(text, Message, "test")


@pytest.fixture
def saved_model(tmp_path: Path) -> SavedModel:
    return read_saved_model(str(write(tmp_path / "1")))


CASES = {
    "": BatchingParameters(),
    "max_batch_size { value: 128 } batch_timeout_micros { value: 0 } max_enqueued_batches { value: 1000000 } "
    "num_batch_threads { value: 8 }": BatchingParameters(128, 0, 1_000_000, 8, max_execution_batch_size=128),
    "thread_pool_name { value: 'pool' } allowed_batch_sizes: 8 allowed_batch_sizes: 1000": BatchingParameters(
        thread_pool_name="pool", allowed_batch_sizes=(8, 1000)
    ),
    "pad_variable_length_inputs: true": BatchingParameters(pad_variable_length_inputs=True),
    "enable_large_batch_splitting { value: true } max_execution_batch_size { value: 16 }": BatchingParameters(
        enable_large_batch_splitting=True, max_execution_batch_size=16
    ),
    "enable_large_batch_splitting { value: true } max_batch_size { value: 9 }": BatchingParameters(
        9, enable_large_batch_splitting=True, max_execution_batch_size=9
    ),
    "enable_large_batch_splitting { value: true }": BatchingParameters(enable_large_batch_splitting=True),
    "allowed_batch_sizes: 4 allowed_batch_sizes: 2 max_batch_size { value: 2 }": BatchingParameters(
        2, allowed_batch_sizes=(4, 2), max_execution_batch_size=2
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_what_a_file_means(saved_model: SavedModel, text: str) -> None:
    expected = dataclasses.replace(CASES[text], isolate_failures=True)
    assert Batching(message(text)).of(saved_model) == expected


def test_members_are_not_run_again_where_the_graph_has_state(saved_model: SavedModel) -> None:
    parameters = Batching(Message()).of(dataclasses.replace(saved_model, stateful=True))
    assert parameters is not None
    assert not parameters.isolate_failures


REFUSED = {
    "allowed_batch_sizes: 8 allowed_batch_sizes: 16 max_batch_size { value: 4 }": (
        "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 16; expected 4"
    ),
    "allowed_batch_sizes: 8": (
        "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 8; expected 1000"
    ),
    "max_batch_size { value: 0 }": "input_batch_size_limit must be positive; was 0",
    "batch_timeout_micros { value: -1 }": "batch_timeout_micros must be non-negative; was -1",
    "max_enqueued_batches { value: 0 }": "max_enqueued_batches must be positive; was 0",
    "num_batch_threads { value: 0 }": "num_batch_threads must be positive; was 0",
    "enable_large_batch_splitting { value: true } max_execution_batch_size { value: 2000 }": (
        "When enable_large_batch_splitting is true, input_batch_size_limit must be greater than or equal to "
        "max_execution_batch_size."
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_scheduler_refuses(saved_model: SavedModel, text: str) -> None:
    with pytest.raises(SavedModelError) as refused:
        Batching(message(text)).of(saved_model)
    assert (refused.value.code, refused.value.message) == (3, REFUSED[text])


def test_a_model_has_its_own_parameters_and_the_threads_of_the_server(saved_model: SavedModel) -> None:
    batching = Batching(
        message("max_batch_size { value: 7 } num_batch_threads { value: 3 } thread_pool_name { value: 'all' }"),
        per_model=True,
    )
    assert batching.of(saved_model) is None
    own = "max_batch_size { value: 2 } num_batch_threads { value: 9 } thread_pool_name { value: 'own' }"
    Path(saved_model.path, "batching_params.pbtxt").write_text(own)
    expected = BatchingParameters(
        2, num_batch_threads=3, thread_pool_name="all", max_execution_batch_size=2, isolate_failures=True
    )
    assert batching.of(saved_model) == expected


def test_a_file_is_read_only_where_models_may_have_their_own(saved_model: SavedModel) -> None:
    path = Path(saved_model.path, "batching_params.pbtxt")
    path.write_text("max_batch_size: 2")
    assert Batching(Message()).of(saved_model) is not None
    with pytest.raises(SavedModelError) as refused:
        Batching(Message(), per_model=True).of(saved_model)
    assert (refused.value.code, refused.value.message) == (3, f"Invalid protobuf file: '{path}'")
