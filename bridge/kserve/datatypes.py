"""TensorFlow's dtypes as V2 clients see them."""

from __future__ import annotations

from typing import NamedTuple

from model_repo_sync.runner.tensorflow_engine import dtypes

BYTES = "BYTES"


class Datatype(NamedTuple):
    """A V2 datatype. `itemsize` is the bytes of one element, 0 for BYTES, whose elements vary.

    A complex number, for which V2 has no datatype, is `parts` = 2 floats in an additional last dimension.
    """

    name: str
    itemsize: int
    parts: int = 1


_COMPLEX = {8: Datatype("FP32", 4, 2), 18: Datatype("FP64", 8, 2)}
_BY_DTYPE = {
    number: _COMPLEX.get(number) or Datatype(dtype.triton, dtype.itemsize) for number, dtype in dtypes.DTYPES.items()
}

NUMPY = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
"""The numpy form of one element. BF16 has none, BYTES needs none."""


def datatype(dtype: int) -> Datatype:
    """The form of TensorFlow's dtype with this number."""
    return _BY_DTYPE[dtype]
