from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
import rapidjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec.numbers import float_text, float_texts, shortest_text


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (9000000, "9e+06"),
        (999999, "999999.0"),
        (0.5, "0.5"),
        (0.0003, "0.0003"),
        (0.00003, "3e-05"),
        (555557.5, "555557.5"),
        (3, "3.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (6e-07, "6e-07"),
        (1 / 3, "0.333333343"),
        (16777216, "16777216.0"),
        (3.4028234663852886e38, "3.40282347e+38"),
        (1e-45, "1.4013e-45"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_tokens_of_floats(value: float, token: str) -> None:
    assert float_texts(np.array([value], np.float32)) == [token]


@pytest.mark.parametrize(
    ("value", "token"),
    [(0.1, "0.1"), (1 / 3, "0.33333333333333331"), (8.0, "8.0"), (1e22, "1e+22"), (2.5e-310, "2.5e-310")],
)
def test_tokens_of_doubles(value: float, token: str) -> None:
    assert float_text(value) == token


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_float_tokens_are_six_digits_exactly_where_c_reads_them_back(values: list[float]) -> None:
    libc = ctypes.CDLL(None)
    libc.strtof.restype = ctypes.c_float
    for value, token in zip(values, float_texts(np.array(values, np.float32)), strict=True):
        short = f"{value:g}"
        expected = short if libc.strtof(short.encode(), None) == value else f"{value:.9g}"
        assert token in (expected, f"{expected}.0")
        assert "." in token or "e" in token
        assert np.float32(token) == np.float32(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_tokens_read_back(value: float) -> None:
    assert float(float_text(value)) == value
    assert float(shortest_text(value)) == value
    assert type(rapidjson.loads(float_text(value))) is float


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e16, "10000000000000000.0"),
        (1e21, "1e21"),
        (1.25e22, "1.25e22"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (123456789.125, "123456789.125"),
        (math.inf, "Infinity"),
    ],
)
def test_shortest_tokens(value: float, token: str) -> None:
    assert shortest_text(value) == token
