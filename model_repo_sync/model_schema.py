"""The schema of a model: a JSON file beside it that tells Triton its inputs and outputs, as KServe has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import model_config_pb2

FILE = "_schema.json"
"""The name under which KServe puts a schema beside a model; it is no part of that."""

_DATA_TYPES = {
    "BF16": "TYPE_BF16",
    "BOOL": "TYPE_BOOL",
    "BYTES": "TYPE_STRING",
    "FP16": "TYPE_FP16",
    "FP32": "TYPE_FP32",
    "FP64": "TYPE_FP64",
    "INT8": "TYPE_INT8",
    "INT16": "TYPE_INT16",
    "INT32": "TYPE_INT32",
    "INT64": "TYPE_INT64",
    "STRING": "TYPE_STRING",
    "UINT8": "TYPE_UINT8",
    "UINT16": "TYPE_UINT16",
    "UINT32": "TYPE_UINT32",
    "UINT64": "TYPE_UINT64",
}


class SchemaError(Exception):
    """A schema that cannot be used, in one sentence."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output; `data_type` is Triton's name for a configuration (`TYPE_FP32`), `shape` has -1 for any."""

    name: str
    data_type: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """Inputs and outputs of a model; where there are none of a kind the model itself has to tell."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def apply(self, config: Any) -> None:
        """Replace inputs and outputs of a ModelConfig. Raises SchemaError where a batch dimension is missing."""
        batched = config.max_batch_size > 0
        for field, tensors in ((config.input, self.inputs), (config.output, self.outputs)):
            if tensors:
                del field[:]
            for tensor in tensors:
                dims = _without_batch(tensor) if batched else tensor.shape
                data_type = model_config_pb2.DataType.Value(tensor.data_type)
                field.add(name=tensor.name, data_type=data_type, dims=dims)


def parse(text: bytes, called: str) -> Schema:
    """The schema in a file that messages call `called`. Raises SchemaError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"The schema {called} is no JSON: {error}.") from error
    if not isinstance(document, dict):
        raise SchemaError(f"The schema {called} is no JSON object.")
    return Schema(_tensors(document, "inputs", called), _tensors(document, "outputs", called))


def _tensors(document: Mapping[str, Any], field: str, called: str) -> tuple[Tensor, ...]:
    entries = document.get(field) or []
    if not isinstance(entries, list):
        raise SchemaError(f"The schema {called} has {field} that are no list.")
    return tuple(_tensor(entry, field, called) for entry in entries)


def _tensor(entry: Any, field: str, called: str) -> Tensor:
    name, data_type, shape = (
        (entry.get("name"), entry.get("datatype"), entry.get("shape")) if isinstance(entry, dict) else (None,) * 3
    )
    if not isinstance(name, str) or not name:
        raise SchemaError(f"The schema {called} has an entry without a name in its {field}.")
    known = _DATA_TYPES.get(data_type.upper()) if isinstance(data_type, str) else None
    if known is None:
        raise SchemaError(f"The schema {called} gives '{name}' the datatype {data_type!r}, which Triton does not have.")
    if not isinstance(shape, list) or not all(_is_dimension(size) for size in shape):
        raise SchemaError(f"The schema {called} gives '{name}' a shape that is no list of sizes or -1.")
    return Tensor(name, known, tuple(shape))


def _is_dimension(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= -1


def _without_batch(tensor: Tensor) -> tuple[int, ...]:
    if not tensor.shape or tensor.shape[0] != -1:
        raise SchemaError(
            f"Conflicting model configuration: '{tensor.name}' has the shape {list(tensor.shape)} in the schema, which "
            "does not start with -1, although max_batch_size is above 0."
        )
    return tensor.shape[1:]
