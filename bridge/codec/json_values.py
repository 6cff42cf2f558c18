"""JSON values to tensor elements: what each dtype accepts, and how nested lists become one dense tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from bridge.codec.base64_text import decode_base64
from bridge.codec.json_text import dump
from bridge.codec.string_tensor import frame
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import MAX_RANK
from bridge.errors import InvalidArgument, Unimplemented
from model_repo_sync.runner.tensorflow_engine import dtypes

_FLOATS = (1, 2)
_BOOL = 10
_INT32_RANGE = (-(2**31), 2**31 - 1)
_INTEGER_RANGES = {
    3: _INT32_RANGE,
    4: _INT32_RANGE,
    5: _INT32_RANGE,
    6: _INT32_RANGE,
    9: (-(2**63), 2**63 - 1),
    22: (0, 2**32 - 1),
    23: (0, 2**64 - 1),
}
"""What TF Serving accepts per dtype. The narrow ones take any int32 and wrap around."""

_TYPE_NAMES: dict[type, str] = {
    type(None): "Null",
    dict: "Object",
    list: "Array",
    str: "String",
    int: "Number",
    float: "Number",
}


def is_base64_object(value: Any) -> bool:
    """Whether a JSON value is `{"b64": "<string>"}`."""
    return type(value) is dict and len(value) == 1 and type(value.get("b64")) is str


class ElementBuffer:
    """Collects the elements of one tensor from JSON values of equal shape, one value after another."""

    def __init__(self, alias: str, dtype: int) -> None:
        self.alias = alias
        self.dtype = dtype
        self.shape: tuple[int, ...] | None = None
        """The shape of each value added; None before the first."""
        self._elements: list[Any] = []

    def add(self, value: Any) -> None:
        """Append a scalar or nested list. Raises InvalidArgument or Unimplemented with TF Serving's sentence."""
        shape = shape_of(value)
        before = len(self._elements)
        self._fill(value, 0, shape)
        if self.shape is None:
            self.shape = shape
        elif shape != self.shape:
            self._refuse(shape, len(self._elements) - before)

    def tensor(self, *leading: int) -> Tensor:
        """The tensor of all values, with the `leading` dimensions before those of each value."""
        return pack(self.alias, self.dtype, leading + (self.shape or ()), self._elements)

    def _refuse(self, shape: tuple[int, ...], size: int) -> None:
        expected = self.shape or ()
        expected_size = prod(expected)
        if size != expected_size:
            raise InvalidArgument(f"Expecting tensor size: {expected_size} but got: {size}")
        raise InvalidArgument(f"Expecting shape {_shape_text(expected)} but got: {_shape_text(shape)}")

    def _fill(self, value: Any, level: int, shape: tuple[int, ...]) -> None:
        rank = len(shape)
        if type(value) is not list:
            if level != rank:
                raise InvalidArgument(
                    f"JSON Value: {dump(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                    f"Expected at level: {rank}"
                )
            self._elements.append(element(value, self.dtype))
            return
        if level >= rank:
            raise InvalidArgument(f"Encountered list at unexpected level: {level} expected < {rank}")
        if len(value) != shape[level]:
            raise InvalidArgument(
                f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
            )
        for item in value:
            self._fill(item, level + 1, shape)


def dense_tensor(alias: str, dtype: int, values: list[Any]) -> Tensor | None:
    """The tensor of a list of scalars or nested lists, where all have one shape and no element needs a closer look.

    None otherwise: then ElementBuffer gives the same tensor, or the error.
    """
    shape = (len(values), *shape_of(values[0]))
    level: list[Any] = [values]
    for size in shape:
        if not all(type(item) is list and len(item) == size for item in level):
            return None
        level = list(chain.from_iterable(level))
    return pack(alias, dtype, shape, level) if _all_plain(level, dtype) else None


def _all_plain(elements: list[Any], dtype: int) -> bool:
    """Whether `element` would return every one of `elements` as it is (strings apart, which it encodes)."""
    kinds = set(map(type, elements))
    if dtype in _FLOATS:
        return kinds <= {int, float}
    if dtype in _INTEGER_RANGES:
        low, high = _INTEGER_RANGES[dtype]
        return kinds <= {int} and (not elements or (min(elements) >= low and max(elements) <= high))
    return kinds <= {bool} if dtype == _BOOL else dtype == dtypes.DT_STRING and kinds <= {str}


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape along the first element of each list; the others are not looked at."""
    shape = []
    while type(value) is list:
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def element(value: Any, dtype: int) -> Any:
    """One JSON scalar, or `b64` object, as an element of `dtype`: bytes for a string, else the value itself.

    Raises InvalidArgument, or Unimplemented for a dtype that has no form in JSON.
    """
    if dtype == dtypes.DT_STRING:
        return _string(value)
    kind = type(value)
    if not isinstance(value, dict) and dtype not in _FLOATS and dtype not in _INTEGER_RANGES and dtype != _BOOL:
        raise Unimplemented(f"Conversion of JSON Value: {dump(value)} to type: {dtypes.name(dtype)}")
    if not _accepts(value, kind, dtype):
        raise _type_error(value, dtype)
    return value


def _accepts(value: Any, kind: type, dtype: int) -> bool:
    if dtype in _FLOATS:
        return kind is int or kind is float
    if dtype in _INTEGER_RANGES:
        low, high = _INTEGER_RANGES[dtype]
        return kind is int and low <= value <= high
    return kind is bool


def _string(value: Any) -> bytes:
    if type(value) is str:
        return value.encode()
    if is_base64_object(value):
        return decode_base64(value["b64"])
    if isinstance(value, dict):
        raise InvalidArgument(f"JSON Value: {dump(value)} not formatted correctly for base64 data")
    raise _type_error(value, dtypes.DT_STRING)


def _type_error(value: Any, dtype: int) -> InvalidArgument:
    return InvalidArgument(
        f"JSON Value: {dump(value)} Type: {type_name(value)} is not of expected type: {dtypes.name(dtype)}"
    )


def type_name(value: Any) -> str:
    """What TF Serving calls the JSON type of a value."""
    if type(value) is bool:
        return str(value)
    return _TYPE_NAMES[dict if isinstance(value, dict) else type(value)]


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def pack(alias: str, dtype: int, shape: tuple[int, ...], elements: Sequence[Any]) -> Tensor:
    """Accepted elements in TensorFlow's memory layout. Raises InvalidArgument past TensorFlow's highest rank."""
    if len(shape) > MAX_RANK:
        raise InvalidArgument(f"tensor parsing error: {alias}")
    return Tensor(dtype, shape, _packer(dtype)(elements))


def _packer(dtype: int) -> Callable[[Sequence[Any]], bytes]:
    if dtype == dtypes.DT_STRING:
        return _pack_strings
    if dtype in _FLOATS:
        return _pack_floats if dtype == 1 else lambda elements: np.array(elements, np.float64).tobytes()
    if dtype in _INTEGER_RANGES:
        wide = np.uint64 if dtype == 23 else np.int64
        return lambda elements: np.array(elements, wide).astype(dtypes.DTYPES[dtype].numpy).tobytes()
    return lambda elements: np.array(elements, np.bool_).tobytes()


def _pack_floats(elements: Sequence[Any]) -> bytes:
    with np.errstate(over="ignore"):
        return np.array(elements, np.float64).astype(np.float32).tobytes()


def _pack_strings(elements: Sequence[str | bytes]) -> bytes:
    return frame([item.encode() if isinstance(item, str) else item for item in elements])
