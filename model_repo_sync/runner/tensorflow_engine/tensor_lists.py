"""Lists of tensors in frames: the integers give each one's rank, dimensions and bytes, the data its elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .dtypes import DType
from .feed import Array, Feed
from .frames import ALIGNMENT, Buffer, pack, unpack


class Encoded(NamedTuple):
    """What Connection.send takes."""

    integers: list[int]
    parts: list[Buffer]


def encode_feeds(feeds: Sequence[Feed]) -> Encoded:
    """Values on their way to the engine; their shapes are TensorFlow's."""
    encoded = Encoded([], [])
    for feed in feeds:
        array = feed.arrays[0] if len(feed.arrays) == 1 else np.concatenate([one.ravel() for one in feed.arrays])
        _add(encoded, feed.dtype, feed.shape, array)
    return encoded


def encode_arrays(dtypes: Sequence[DType], arrays: Sequence[Array]) -> Encoded:
    """Arrays in wire form on their way back."""
    encoded = Encoded([], [])
    for dtype, array in zip(dtypes, arrays, strict=True):
        _add(encoded, dtype, array.shape, array)
    return encoded


def decode_feeds(
    names: Sequence[str], dtypes: Sequence[DType], integers: Sequence[int], data: memoryview
) -> list[Feed]:
    """What encode_feeds wrote; numbers share the memory of `data`."""
    tensors = _split(integers, data)
    return [
        Feed(name, dtype, shape, (unpack(dtype, math.prod(shape) * dtype.multiplicity, part),))
        for (name, dtype), (shape, part) in zip(zip(names, dtypes, strict=True), tensors, strict=True)
    ]


def decode_arrays(dtypes: Sequence[DType], integers: Sequence[int], data: memoryview) -> list[Array]:
    """What encode_arrays wrote; numbers share the memory of `data`."""
    return [
        unpack(dtype, math.prod(shape), part).reshape(shape)
        for dtype, (shape, part) in zip(dtypes, _split(integers, data), strict=True)
    ]


def _add(encoded: Encoded, dtype: DType, shape: Sequence[int], array: Array) -> None:
    part = pack(dtype, array)
    encoded.integers.extend((len(shape), *shape, len(part)))
    encoded.parts.append(part)


def _split(integers: Sequence[int], data: memoryview) -> Iterator[tuple[tuple[int, ...], memoryview]]:
    position = start = 0
    while position < len(integers):
        rank = integers[position]
        shape = tuple(integers[position + 1 : position + 1 + rank])
        size = integers[position + 1 + rank]
        yield shape, data[start : start + size]
        position += rank + 2
        start += size + -size % ALIGNMENT
