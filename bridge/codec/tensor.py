"""The tensor that travels between shells, core and Triton."""

from __future__ import annotations

from typing import NamedTuple


class Tensor(NamedTuple):
    """A dense tensor in TensorFlow's memory layout.

    `dtype` is TensorFlow's DataType number without the reference bit; `shape` is the true shape, `()` for a scalar.
    `data` is little-endian and contiguous, in the width that TensorFlow keeps (4-bit types take a byte each); for
    DT_STRING every element is a 4-byte little-endian length followed by its bytes, as in Triton's BYTES.
    """

    dtype: int
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview
