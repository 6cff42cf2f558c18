"""A tensor as JSON text: nested lists, either on one line or with every element on a line of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.codec.base64_text import encode_base64
from bridge.codec.json_text import INDENT, quote
from bridge.codec.number_text import Separator, joined, number_text
from bridge.codec.string_tensor import unframe
from bridge.codec.tensor import Tensor
from bridge.errors import InvalidArgument
from model_repo_sync.runner.tensorflow_engine import dtypes

_NUMBERS = (1, 2, 3, 4, 5, 6, 9, 10, 22, 23)
_BYTES_SUFFIX = "_bytes"
_ROW_END = b"\0"
"""Stands between rows where each is wanted by itself: no JSON text contains it."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How lists are written. `level` counts the containers that are open around the tensor; `lines` asks for lines."""

    level: int
    lines: bool

    def open(self, axis: int) -> str:
        return f"[{self._line(axis + 1)}"

    def close(self, axis: int) -> str:
        return f"{self._line(axis)}]"

    def comma(self, axis: int) -> str:
        return f",{self._line(axis + 1)}" if self.lines else ", "

    def _line(self, depth: int) -> str:
        return f"\n{INDENT * (self.level + depth)}" if self.lines else ""


def column_text(alias: str, tensor: Tensor, level: int) -> list[bytes]:
    """A whole tensor, each element on a line of its own, in pieces.

    `level` counts the containers that are open around it. Raises InvalidArgument for a dtype that has no form in JSON.
    """
    dims, elements = _elements(alias, tensor, level + len(tensor.shape))
    layout = _Layout(level, lines=True)
    axes = range(len(dims))
    opening, closing = "".join(map(layout.open, axes)), "".join(map(layout.close, reversed(axes)))
    return [opening.encode(), *_text(elements, _separators(dims, layout, layout.comma(0))), closing.encode()]


def rows_text(alias: str, tensor: Tensor, level: int) -> list[bytes]:
    """All rows of a tensor, without the brackets of the outer list, on one line, in pieces. Raises InvalidArgument."""
    return _rows(alias, tensor, level, ", ")


def row_texts(alias: str, tensor: Tensor, level: int) -> list[bytes]:
    """Each row of a tensor, on one line. Raises InvalidArgument."""
    rows = _rows(alias, tensor, level, _ROW_END.decode())
    return b"".join(rows).split(_ROW_END) if tensor.shape[0] else []


def _rows(alias: str, tensor: Tensor, level: int, between: str) -> list[bytes]:
    dims, elements = _elements(alias, tensor, level + len(tensor.shape) - 1)
    brackets = len(dims) - 1
    if brackets < 0:
        return []
    text = _text(elements, _separators(dims, _Layout(level, lines=False), between))
    return [b"[" * brackets, *text, b"]" * brackets]


def _separators(dims: Sequence[int], layout: _Layout, outermost: str) -> list[Separator]:
    """What stands between two elements, by how many lists end there.

    `outermost` replaces the comma of the first axis.
    """
    rank = len(dims)
    result = []
    for ended in range(rank):
        closing = "".join(map(layout.close, range(rank - 1, rank - 1 - ended, -1)))
        opening = "".join(map(layout.open, range(rank - ended, rank)))
        comma = outermost if ended == rank - 1 else layout.comma(rank - 1 - ended)
        result.append(Separator(prod(dims[rank - ended :]), f"{closing}{comma}{opening}".encode()))
    return result


def _text(elements: NDArray[Any] | list[bytes], separators: Sequence[Separator]) -> Iterable[bytes]:
    return (joined(elements, separators),) if isinstance(elements, list) else number_text(elements, separators)


def _elements(alias: str, tensor: Tensor, level: int) -> tuple[Sequence[int], NDArray[Any] | list[bytes]]:
    """The dimensions that are written as lists, and what stands in them: numbers or tokens.

    The lists along a dimension of size 0 are tokens themselves. `level` counts the containers that are open around each
    element.
    """
    if 0 in tensor.shape:
        dims = tensor.shape[: tensor.shape.index(0)]
        return dims, [b"[]"] * prod(dims)
    if tensor.dtype == dtypes.DT_STRING:
        return tensor.shape, [*_strings(unframe(tensor.data), alias.endswith(_BYTES_SUFFIX), level)]
    if tensor.dtype not in _NUMBERS:
        raise InvalidArgument(f"Failed to write JSON value for tensor type: {dtypes.name(tensor.dtype)}")
    return tensor.shape, np.frombuffer(tensor.data, dtypes.DTYPES[tensor.dtype].numpy)


def _strings(items: Iterable[bytes], encoded: bool, level: int) -> Iterable[bytes]:
    if encoded:
        line, end = f"\n{INDENT * (level + 1)}", f"\n{INDENT * level}"
        return (f'{{{line}"b64": {quote(encode_base64(item))}{end}}}'.encode() for item in items)
    return (quote(item.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape") for item in items)
