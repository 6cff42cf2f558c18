"""The one printer of arrays of numbers as JSON text: compiled where that was built, else plain, with the same bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.codec.native import LIBRARY
from bridge.codec.numbers import float_texts

_KINDS = {
    name: number
    for number, name in enumerate(
        ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "bool")
    )
}
"""The dtypes that have a form in JSON, and their numbers in the library."""

_BLOCK = 1 << 14
"""Elements that are printed at once: the interpreter's lock comes free between two blocks at the latest."""
_TOKEN = 25
"""Bytes of the longest number."""
_SPARE = 32


class Separator(NamedTuple):
    """What stands before each element whose index `period` divides, the first of all left out."""

    period: int
    text: bytes


def number_text(values: NDArray[Any], separators: Sequence[Separator]) -> Iterator[bytes]:
    """The elements of a flat array, floats as `float_texts` writes them, in pieces.

    Of the separators that fit an index the last one counts; the first has the period 1, each other one a multiple of
    the one before it.
    """
    if LIBRARY is None:
        return plain_number_text(values, separators)
    return _printed(LIBRARY, values, separators)


def plain_number_text(values: NDArray[Any], separators: Sequence[Separator]) -> Iterator[bytes]:
    """`number_text` without the library."""
    for begin in range(0, len(values), _BLOCK):
        yield joined(_tokens(values[begin : begin + _BLOCK]), separators, begin)


def joined(tokens: Sequence[bytes], separators: Sequence[Separator], begin: int = 0) -> bytes:
    """Tokens with the separators between them; `begin` is the index of the first one."""
    if len(separators) == 1 and begin == 0:
        return separators[0].text.join(tokens)
    if not separators:
        return b"".join(tokens)
    levels = np.zeros(len(tokens), np.intp)
    for level, separator in enumerate(separators[1:], 1):
        levels[-begin % separator.period :: separator.period] = level
    texts = [separators[level].text for level in levels.tolist()]
    if begin == 0 and texts:
        texts[0] = b""
    return b"".join(chain.from_iterable(zip(texts, tokens, strict=True)))


def _tokens(values: NDArray[Any]) -> list[bytes]:
    if values.dtype.kind == "f":
        return [text.encode() for text in float_texts(values)]
    if values.dtype.kind == "b":
        return [b"true" if value else b"false" for value in values.tolist()]
    return [b"%d" % value for value in values.tolist()]


def _printed(library: ctypes.CDLL, values: NDArray[Any], separators: Sequence[Separator]) -> Iterator[bytes]:
    count, kind = len(values), _KINDS[values.dtype.name]
    texts = [separator.text for separator in separators] or [b""]
    periods = (ctypes.c_int64 * len(texts))(*[separator.period for separator in separators] or [1])
    lengths = (ctypes.c_int32 * len(texts))(*map(len, texts))
    pointers = (ctypes.c_char_p * len(texts))(*texts)
    block = min(count, _BLOCK)
    out = ctypes.create_string_buffer(block * (_TOKEN + max(map(len, texts))) + _SPARE)
    view, address = memoryview(out), values.ctypes.data
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        size = library.json_print(address, kind, begin, end, len(texts), periods, pointers, lengths, out)
        yield bytes(view[:size])
