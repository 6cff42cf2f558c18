"""The tensors of ModelInfer: typed and raw contents to `Tensor`, outputs to raw contents."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.codec.string_tensor import frame, unframe
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import MAX_RANK
from bridge.errors import InvalidArgument
from bridge.kserve.datatypes import BYTES, NUMPY, Datatype, datatype
from bridge.kserve.messages import Buffer
from bridge.triton.outputs import byte_size

_FIELDS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}
"""Where InferTensorContents carries a datatype. FP16 and BF16 have no field."""


def input_tensor(message: Any, raw: Buffer | None, dtype: int, model: str) -> Tensor:
    """The tensor of an InferInputTensor for a graph tensor of `dtype`; `raw` is its raw content, None without one.

    Raises InvalidArgument in Triton's words.
    """
    kind = datatype(dtype)
    if message.datatype != kind.name:
        raise InvalidArgument(
            f"inference input '{message.name}' data-type is '{message.datatype}', "
            f"but model '{model}' expects '{kind.name}'"
        )
    shape = _shape(message, kind, model)
    if raw is not None and message.HasField("contents"):
        raise InvalidArgument(
            f"contents field must not be specified when using raw_input_contents for '{message.name}' "
            f"for model '{model}'"
        )
    data = _typed(message, model) if raw is None else raw
    _check_size(message.name, data, prod(shape) * kind.parts, kind, model)
    return Tensor(dtype, shape, data)


def described(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    """Datatype and shape of an output, whose raw content is its data."""
    kind = datatype(tensor.dtype)
    shape = tensor.shape if kind.parts == 1 else (*tensor.shape, kind.parts)
    return kind.name, shape


def pack(name: str, kind: str, elements: Sequence[Any], model: str) -> bytes:
    """The raw content of `elements`, which are Python's own values. Raises InvalidArgument for what does not fit."""
    if kind == BYTES:
        return frame(elements)
    array = _array(name, kind, elements, model)
    wide = array.astype(NUMPY[kind])
    if kind[0] in "IU" and not np.array_equal(wide, array):
        raise InvalidArgument(f"input '{name}' for model '{model}' holds a number that is no {kind}")
    return wide.tobytes()


def _array(name: str, kind: str, elements: Sequence[Any], model: str) -> NDArray[Any]:
    wide = {"F": np.float64, "B": np.bool_, "I": np.int64, "U": np.uint64}[kind[0]]
    try:
        return np.array(elements, wide)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"input '{name}' for model '{model}' holds a value that is no {kind}") from error


def _shape(message: Any, kind: Datatype, model: str) -> tuple[int, ...]:
    shape = tuple(message.shape)
    if len(shape) > MAX_RANK or any(size < 0 for size in shape):
        raise InvalidArgument(f"input '{message.name}' for model '{model}' cannot have the shape {list(shape)}")
    if kind.parts == 1:
        return shape
    if not shape or shape[-1] != kind.parts:
        raise InvalidArgument(
            f"input '{message.name}' for model '{model}' holds complex numbers: the last dimension has to be "
            f"{kind.parts}, real and imaginary part"
        )
    return shape[:-1]


def _typed(message: Any, model: str) -> bytes:
    field = _FIELDS.get(message.datatype)
    if field is None:
        raise InvalidArgument(
            f"input '{message.name}' for model '{model}' has to come in raw_input_contents: "
            f"contents have no field for {message.datatype}"
        )
    for other, _ in message.contents.ListFields():
        if other.name != field:
            raise InvalidArgument(
                f"input '{message.name}' for model '{model}' is {message.datatype}, which {field} carries, "
                f"not {other.name}"
            )
    return pack(message.name, message.datatype, getattr(message.contents, field), model)


def _check_size(name: str, data: Buffer, elements: int, kind: Datatype, model: str) -> None:
    if kind.name == BYTES:
        _check_strings(name, data, elements, model)
    elif byte_size(data) != elements * kind.itemsize:
        raise InvalidArgument(
            f"input byte size mismatch for input '{name}' for model '{model}'. "
            f"Expected {elements * kind.itemsize}, got {byte_size(data)}"
        )


def _check_strings(name: str, data: Buffer, elements: int, model: str) -> None:
    try:
        found = len(unframe(data))
    except ValueError as error:
        raise InvalidArgument(
            f"incomplete string data for inference input '{name}' for model '{model}': {error}"
        ) from error
    if found != elements:
        raise InvalidArgument(
            f"unexpected number of string elements {found} for inference input '{name}' for model '{model}', "
            f"expecting {elements}"
        )
