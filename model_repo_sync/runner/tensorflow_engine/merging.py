"""Rows of several requests as one tensor and back, with the checks and words of TF Serving's batching session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .dtypes import DType
from .errors import FAILED_PRECONDITION, INVALID_ARGUMENT, StatusError
from .feed import Array

MAX_PADDED_RANK = 6


class Value(NamedTuple):
    """A tensor on its way into the session. `array` is its wire form: where an element takes several wire elements,
    they are one more dimension."""

    dtype: DType
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that TensorFlow sees."""
        return self.array.shape if self.dtype.multiplicity == 1 else self.array.shape[:-1]


Feeds = Mapping[str, Value]
"""The tensors of one request by graph name."""


def row_count(feeds: Feeds) -> int:
    """The size of dimension 0, in which all inputs have to agree. Raises StatusError."""
    if not feeds:
        raise StatusError(INVALID_ARGUMENT, "Batching Run() must have at least one input tensor")
    rows: int | None = None
    for value in feeds.values():
        if not value.shape:
            raise StatusError(INVALID_ARGUMENT, "Batching Run() input tensors must have at least one dimension")
        if rows is not None and value.shape[0] != rows:
            raise StatusError(INVALID_ARGUMENT, "Batching Run() input tensors must have equal 0th-dimension size")
        rows = value.shape[0]
    return rows or 0


def merge(name: str, values: Sequence[Value], rows: int, *, pad: bool) -> list[Array]:
    """The arrays that make up input `name` of a batch of `rows` when they are put one after the other.

    `values` come from its requests. Rows that they lack are the first row of the last one. With `pad` the other
    dimensions grow to the largest of each. Raises StatusError where the shapes do not fit.
    """
    arrays = _padded(name, values) if pad else _equal(name, values)
    missing = rows - sum([len(array) for array in arrays])
    if missing:
        donor = next(array for array in reversed(arrays) if len(array))
        arrays += [donor[:1]] * missing
    return arrays


def split(array: Array, rows: int, sizes: Sequence[int]) -> list[Array]:
    """The rows of an output of a batch of `rows` that belong to each of its requests; padding is left out.

    The parts share memory with `array`. Raises StatusError where the output has not one row per row of the batch.
    """
    if not array.shape:
        raise StatusError(FAILED_PRECONDITION, "Batched output tensor has 0 dimensions")
    if array.shape[0] != rows:
        raise StatusError(
            FAILED_PRECONDITION,
            "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input "
            "tensors",
        )
    parts, start = [], 0
    for size in sizes:
        parts.append(array[start : start + size])
        start += size
    return parts


def _equal(name: str, values: Sequence[Value]) -> list[Array]:
    arrays = [value.array for value in values]
    if any(array.shape[1:] != arrays[0].shape[1:] for array in arrays):
        raise StatusError(
            FAILED_PRECONDITION,
            f"Tensors with name '{name}' from different tasks have different shapes and padding is turned off. "
            "Set pad_variable_length_inputs to true, or ensure that all tensors with the same name have equal "
            "dimensions starting with the first dim.",
        )
    return arrays


def _padded(name: str, values: Sequence[Value]) -> list[Array]:
    ranks = {len(value.shape) for value in values}
    if max(ranks) > MAX_PADDED_RANK:
        raise StatusError(INVALID_ARGUMENT, "Only tensors with rank from 1 to 6 can be padded.")
    if len(ranks) > 1:
        raise StatusError(
            FAILED_PRECONDITION,
            f"Tensors with name '{name}' from different tasks have different ranks, and padding adds no dimensions.",
        )
    sizes = tuple(max(dimension) for dimension in zip(*(value.shape for value in values), strict=True))
    return [_grown(value, (value.shape[0], *sizes[1:])) for value in values]


def _grown(value: Value, shape: tuple[int, ...]) -> Array:
    """The tensor in the corner of a larger one whose other elements equal its first."""
    array, wire = value.array, value.array.shape[len(value.shape) :]
    if shape == value.shape:
        return array
    if not array.size and all(shape):
        raise StatusError(INVALID_ARGUMENT, "Got empty tensor in batch of non-empty tensors.")
    grown = np.empty(shape + wire, array.dtype)
    # A slice, since numpy cuts NULs off a string that is assigned by itself.
    grown[...] = array.reshape((-1, *wire))[:1] if array.size else 0
    grown[tuple([slice(size) for size in value.shape])] = array
    return grown
