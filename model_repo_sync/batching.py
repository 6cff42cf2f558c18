"""Which batching parameters a SavedModel is served with: those of the server, or its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from model_repo_sync.config_files import ConfigFileError, read_text_proto
from model_repo_sync.protos.tensorflow import error_codes_pb2
from model_repo_sync.protos.tensorflow_serving import session_bundle_config_pb2
from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters
from model_repo_sync.saved_model import SavedModel, SavedModelError

PER_MODEL_FILE = "batching_params.pbtxt"

_QUEUE = (
    "max_batch_size",
    "batch_timeout_micros",
    "max_enqueued_batches",
    "enable_large_batch_splitting",
    "max_execution_batch_size",
)
_THREADS = ("num_batch_threads", "thread_pool_name")


@dataclass(frozen=True, slots=True)
class Batching:
    """`parameters` of the server, for every SavedModel.

    With `per_model` only the threads come from them; the rest comes from the file `batching_params.pbtxt` of each
    SavedModel, and one without it is not batched.
    """

    parameters: session_bundle_config_pb2.BatchingParameters
    per_model: bool = False

    def of(self, saved_model: SavedModel) -> BatchingParameters | None:
        """What the runner of `saved_model` is told, None where its requests are not batched.

        Raises SavedModelError in TF Serving's words for parameters that its scheduler refuses, at each load.
        """
        message = _own(saved_model.path) if self.per_model else self.parameters
        if message is None:
            return None
        queue, threads = _set_fields(message, _QUEUE), _set_fields(self.parameters, _THREADS)
        queue.setdefault("max_execution_batch_size", message.max_batch_size.value)
        parameters = BatchingParameters(
            **queue,
            **threads,
            allowed_batch_sizes=tuple(message.allowed_batch_sizes),
            pad_variable_length_inputs=message.pad_variable_length_inputs,
            isolate_failures=not saved_model.stateful,
        )
        _check_threads(threads)
        _check_queue(parameters)
        return parameters


def _own(saved_model: str) -> session_bundle_config_pb2.BatchingParameters | None:
    path = os.path.join(saved_model, PER_MODEL_FILE)
    if not os.path.exists(path):
        return None
    try:
        return read_text_proto(path, session_bundle_config_pb2.BatchingParameters)
    except ConfigFileError as error:
        raise SavedModelError(error.code, error.message) from error


def _set_fields(message: session_bundle_config_pb2.BatchingParameters, names: Iterable[str]) -> dict[str, Any]:
    """The values of those wrapped fields that are set; TF Serving's defaults are not those of the wrappers."""
    return {name: getattr(message, name).value for name in names if message.HasField(name)}


def _check_threads(threads: dict[str, Any]) -> None:
    number = threads.get("num_batch_threads", 1)
    _require(number > 0, f"num_batch_threads must be positive; was {number}")


def _check_queue(parameters: BatchingParameters) -> None:
    most, timeout = parameters.max_batch_size, parameters.batch_timeout_micros
    last = parameters.allowed_batch_sizes[-1] if parameters.allowed_batch_sizes else most
    _require(
        last == most,
        f"Last entry in allowed_batch_sizes must match max_batch_size; last entry was {last}; expected {most}",
    )
    _require(most > 0, f"input_batch_size_limit must be positive; was {most}")
    _require(timeout >= 0, f"batch_timeout_micros must be non-negative; was {timeout}")
    enqueued = parameters.max_enqueued_batches
    _require(enqueued > 0, f"max_enqueued_batches must be positive; was {enqueued}")
    _require(
        most >= parameters.execution_limit,
        "When enable_large_batch_splitting is true, input_batch_size_limit must be greater than or equal to "
        "max_execution_batch_size.",
    )


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise SavedModelError(error_codes_pb2.INVALID_ARGUMENT, sentence)
