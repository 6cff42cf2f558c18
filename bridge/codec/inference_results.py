"""The results of Classify, Regress and MultiInference, and their responses as wire bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import starmap
from typing import NamedTuple

from bridge.codec import wire
from bridge.codec.model_spec import encode_model_spec
from bridge.codec.wire import I32, LEN

_LABEL, _SCORE, _VALUE = 1 << 3 | LEN, 2 << 3 | I32, 1 << 3 | I32
_RESULT, _MODEL_SPEC = 1 << 3 | LEN, 2 << 3 | LEN
_TASK_MODEL_SPEC, _CLASSIFICATION, _REGRESSION = 1 << 3 | LEN, 2 << 3 | LEN, 3 << 3 | LEN
_FLOAT = struct.Struct("<Bf")
_ZERO = bytes(4)


class Classifications(NamedTuple):
    """What a model says of each Example: its classes as (label, score), in the order of the model's columns."""

    rows: Sequence[Sequence[tuple[bytes, float]]]


class Regressions(NamedTuple):
    """What a model says of each Example."""

    values: Sequence[float]


class TaskResult(NamedTuple):
    """The answer to one task of a MultiInference request, by the signature that gave it."""

    signature: str
    result: Classifications | Regressions


def encode_response(name: str, version: int, answer: TaskResult) -> bytes:
    """A serialized ClassificationResponse or RegressionResponse, which have one layout."""
    result = wire.length_delimited(_RESULT, _encode_result(answer.result))
    return result + wire.length_delimited(_MODEL_SPEC, encode_model_spec(name, version, answer.signature))


def encode_multi_inference_response(name: str, version: int, answers: Sequence[TaskResult]) -> bytes:
    """A serialized MultiInferenceResponse with the answers in the order of the tasks."""
    results = []
    for signature, result in answers:
        spec = wire.length_delimited(_TASK_MODEL_SPEC, encode_model_spec(name, version, signature))
        kind = _CLASSIFICATION if isinstance(result, Classifications) else _REGRESSION
        results.append(wire.length_delimited(_RESULT, spec + wire.length_delimited(kind, _encode_result(result))))
    return b"".join(results)


def _encode_result(result: Classifications | Regressions) -> bytes:
    if isinstance(result, Regressions):
        return b"".join([_message(_float(_VALUE, value)) for value in result.values])
    return b"".join([_message(b"".join(starmap(_class, row))) for row in result.rows])


def _class(label: bytes, score: float) -> bytes:
    """A Class within its Classifications. The label's bytes go out as the model gave them, UTF-8 or not."""
    name = wire.length_delimited(_LABEL, label) if label else b""
    return _message(name + _float(_SCORE, score))


def _message(payload: bytes) -> bytes:
    """An element of the repeated field 1 that all three results consist of."""
    return wire.length_delimited(1 << 3 | LEN, payload)


def _float(tag: int, value: float) -> bytes:
    """A float field, which proto3 leaves out where all its bits are zero."""
    data = _FLOAT.pack(tag, value)
    return b"" if data.endswith(_ZERO) else data
