"""The fast path for large request bodies that consist of numbers: nested lists of one shape, read by compiled code.

It takes a body only if the exact path (`bridge.codec.json_body`) would read the same from it, and leaves everything
else to that: booleans, strings, null, ragged or empty lists, repeated keys, NaN, bytes after the object.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.codec import native
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import MAX_RANK
from model_repo_sync.runner.tensorflow_engine import dtypes

SMALLEST = 1 << 10
"""Bytes from which the fast path is the faster one."""

_SPACE = rb"[ \t\r\n]*"
_BEGIN = re.compile(_SPACE + rb"\{" + _SPACE)
_KEY = re.compile(rb'"([\x20-\x21\x23-\x5b\x5d-\x7f]*)"' + _SPACE + rb":" + _SPACE)
_STRING = re.compile(rb'"([\x20-\x21\x23-\x5b\x5d-\x7f]*)"')
_MORE = re.compile(_SPACE + rb"," + _SPACE)
_END = re.compile(_SPACE + rb"\}" + _SPACE)

_FLOATS = (1, 2)
_INTEGERS = {3: "int32", 4: "int32", 5: "int32", 6: "int32", 9: "int64", 22: "uint32", 23: "uint64"}
"""What JSON integers have to fit into for each dtype; the narrow ones wrap around from int32."""


@dataclass(frozen=True, slots=True)
class DenseNumbers:
    """Nested lists of numbers of one shape: int64 if every token is an integer, else float64."""

    values: NDArray[Any]

    def tensor(self, dtype: int) -> Tensor | None:
        """The tensor of `dtype`, None where the exact path has to look at the numbers."""
        kind = self.values.dtype.kind
        if self.values.ndim > MAX_RANK:
            return None
        if dtype in _FLOATS:
            with np.errstate(over="ignore"):
                array = self.values.astype(np.float64, copy=False).astype(dtypes.DTYPES[dtype].numpy, copy=False)
        elif dtype in _INTEGERS and kind == "i" and _fits(self.values, _INTEGERS[dtype]):
            array = self.values.astype(dtypes.DTYPES[dtype].numpy, copy=False)
        else:
            return None
        return Tensor(dtype, self.values.shape, array.reshape(-1).view(np.uint8).data)


DenseValue = str | DenseNumbers | Mapping[str, DenseNumbers]


def _fits(values: NDArray[Any], kind: str) -> bool:
    limits = np.iinfo(kind)
    return int(values.min()) >= limits.min and int(values.max()) <= limits.max


def parse_dense(body: bytes) -> dict[str, DenseValue] | None:
    """The root object of a body whose values are strings, lists of numbers or objects of such lists; None otherwise."""
    if native.LIBRARY is None or len(body) < SMALLEST:
        return None
    reader = _Reader(native.LIBRARY, body)
    try:
        root = reader.object(reader.root_value)
        return root if reader.at_end else None
    except _NotDense:
        return None


class _NotDense(Exception):
    """The exact path has to read this body."""


class _Reader:
    """Reads a body from front to back. Each method raises _NotDense at what it does not know."""

    def __init__(self, library: ctypes.CDLL, body: bytes) -> None:
        self._library = library
        self._body = body
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._body)

    def object(self, value: Any) -> dict[str, Any]:
        """A non-empty object with distinct keys whose values are read by `value`."""
        self._take(_BEGIN)
        result: dict[str, Any] = {}
        while True:
            key = self._take(_KEY)[1].decode("ascii")
            if key in result:
                raise _NotDense
            result[key] = value()
            if self._accept(_MORE) is None:
                self._take(_END)
                return result

    def root_value(self) -> DenseValue:
        match self._body[self._at : self._at + 1]:
            case b"[":
                return self.numbers()
            case b"{":
                members: dict[str, DenseNumbers] = self.object(self.numbers)
                return members
            case _:
                return self._take(_STRING)[1].decode("ascii")

    def numbers(self) -> DenseNumbers:
        """Nested lists of numbers."""
        if self._body[self._at : self._at + 1] != b"[":
            raise _NotDense
        values = np.empty(self._capacity(), np.int64)
        result = native.ParseResult()
        known = self._library.json_parse(
            self._body, self._at, len(self._body), values.ctypes.data, len(values), ctypes.byref(result)
        )
        if not known:
            raise _NotDense
        self._at = result.end
        elements = values[: result.count] if result.integers else values[: result.count].view(np.float64)
        return DenseNumbers(elements.reshape(result.shape[: result.rank]))

    def _capacity(self) -> int:
        """No fewer elements than the lists that begin here have."""
        return int(self._library.json_commas(self._body, self._at, len(self._body))) + 1

    def _accept(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        match = pattern.match(self._body, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _take(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        match = self._accept(pattern)
        if match is None:
            raise _NotDense
        return match
