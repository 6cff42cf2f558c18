"""The tensors that are sent, and what the models make of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

HALF_PLUS_TWO = "half_plus_two"
STRINGS = "strings"

MEGABYTE_COUNT = 95_000
"""Numbers whose nine digits make a JSON body of 1 MB."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Payload:
    """A tensor for input `x` of `model`, whose output `y` has to be `expected`."""

    name: str
    model: str
    x: Array
    expected: Array

    @property
    def size(self) -> int:
        """Bytes of the tensor's elements."""
        if self.x.dtype == object:
            return sum(map(len, self.x))
        return int(self.x.nbytes)


def floats(name: str, x: NDArray[np.float32]) -> Payload:
    return Payload(name, HALF_PLUS_TWO, x, x / 2 + 2)


def strings(name: str, values: list[bytes]) -> Payload:
    x = np.array(values, object)
    return Payload(name, STRINGS, x, x)


def sized(size: int) -> Payload:
    """Floats of `size` bytes in all."""
    return floats(size_name(size), np.arange(size // 4, dtype=np.float32))


def size_name(size: int) -> str:
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def nine_digits(count: int) -> NDArray[np.float32]:
    """Floats whose decimal text needs nine digits, mostly."""
    return np.random.default_rng(9).random(count, dtype=np.float32) * np.float32(10)


SMALL = floats("4 floats", np.array([1, 2, 5, -4], np.float32))
