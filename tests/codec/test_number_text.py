from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bridge.codec import native
from bridge.codec.number_text import Separator, joined, number_text, plain_number_text

Print = Callable[[NDArray[Any], list[Separator]], Iterator[bytes]]

LINES = [Separator(1, b"\n")]
PATTERNS = 1_000_000
SEED = 20260730

compiled = pytest.mark.skipif(native.LIBRARY is None, reason="the compiled codec was not built")
both = pytest.mark.parametrize(
    "printed", [pytest.param(number_text, marks=compiled, id="compiled"), pytest.param(plain_number_text, id="plain")]
)


def test_the_compiled_codec_was_built() -> None:
    """Where the tests run there is a compiler: a printer that silently went missing would cost half the speed."""
    assert native.LIBRARY is not None


def text(printed: Print, values: NDArray[Any]) -> bytes:
    """An element a line."""
    return b"".join(printed(values, LINES))


def bit_patterns(count: int, integer: Any, real: Any) -> NDArray[Any]:
    """Any bits, and as many numbers of the sizes that models answer with."""
    random = np.random.default_rng(SEED)
    bits = random.integers(0, np.iinfo(integer).max, count // 2, integer, endpoint=True).view(real)
    exponents = random.integers(-6, 9, count - count // 2)
    values = (random.standard_normal(len(exponents)) * 10.0**exponents).astype(real)
    values[::7] = np.round(values[::7], 3)
    return np.concatenate([bits, values])


def rule(value: float, parsed_back: Callable[[bytes, None], float], digits: int) -> str:
    """What TF Serving prints, by the C library that it uses."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = f"{value:g}"
    if parsed_back(text.encode(), None) != value:
        text = f"{value:.{digits}g}"
    return text if "." in text or "e" in text else f"{text}.0"


@both
@pytest.mark.parametrize(
    ("integer", "real", "function", "result", "digits", "count"),
    [
        (np.uint32, np.float32, "strtof", ctypes.c_float, 9, PATTERNS),
        (np.uint64, np.float64, "strtod", ctypes.c_double, 17, PATTERNS),
    ],
)
def test_a_million_bit_patterns(
    printed: Print, integer: Any, real: Any, function: str, result: Any, digits: int, count: int
) -> None:
    parsed_back = getattr(ctypes.CDLL(None), function)
    parsed_back.restype = result
    values = bit_patterns(count, integer, real)
    tokens = text(printed, values).decode().split("\n")
    for value, token in zip(values.tolist(), tokens, strict=True):
        assert token == rule(value, parsed_back, digits)


@both
@pytest.mark.parametrize("exponent", range(-46, 38))
def test_around_powers_of_ten(printed: Print, exponent: int) -> None:
    strtof = ctypes.CDLL(None).strtof
    strtof.restype = ctypes.c_float
    digits = ("1", "9.99999", "9.999995", "9.9999949", "9.999999", "5", "1.000005", "1.0000005", "2.5", "1.5")
    values = np.array([float(f"{item}e{exponent}") for item in digits], np.float32)
    values = np.concatenate([values, np.nextafter(values, np.float32(0)), np.nextafter(values, np.float32(1e38))])
    tokens = text(printed, values).decode().split("\n")
    assert tokens == [rule(value, strtof, 9) for value in values.tolist()]


@both
@pytest.mark.parametrize("exponent", range(-18, 10, 3))
def test_around_six_digits(printed: Print, exponent: int) -> None:
    """Floats that six digits tell, and the next ones, which they do not; the one decision that no digit shows."""
    strtof = ctypes.CDLL(None).strtof
    strtof.restype = ctypes.c_float
    told = np.random.default_rng(SEED).integers(100_000, 1_000_000, 2_000)
    values = np.array([float(f"{digits}e{exponent - 5}") for digits in told.tolist()], np.float32)
    values = np.concatenate([values, np.nextafter(values, np.float32(0)), np.nextafter(values, np.float32(1e38))])
    tokens = text(printed, values).decode().split("\n")
    assert tokens == [rule(value, strtof, 9) for value in values.tolist()]


@both
@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integers(printed: Print, name: str) -> None:
    limits = np.iinfo(name)
    values = [limits.min, limits.max, 0, 1, 9, 10, 99, 100]
    assert text(printed, np.array(values, name)).decode().split("\n") == list(map(str, values))


@both
def test_booleans(printed: Print) -> None:
    assert text(printed, np.array([True, False])) == b"true\nfalse"


@both
def test_nothing_and_one(printed: Print) -> None:
    assert text(printed, np.array([], np.float32)) == b""
    assert b"".join(printed(np.array([2.5], np.float32), [])) == b"2.5"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 40_000))
def test_separators_by_period(dims: list[int], count: int) -> None:
    separators = [Separator(int(np.prod(dims[:level])), b"<%d>" % level) for level in range(len(dims) + 1)]
    values = np.arange(count, dtype=np.int64) % 7
    expected = b"".join(
        (b"" if index == 0 else [item.text for item in separators if index % item.period == 0][-1]) + b"%d" % value
        for index, value in enumerate(values.tolist())
    )
    assert b"".join(number_text(values, separators)) == expected
    assert b"".join(plain_number_text(values, separators)) == expected
    assert joined([b"%d" % value for value in values.tolist()], separators) == expected
