from __future__ import annotations

import json
from typing import Any

import pytest
import rapidjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec.json_text import DUMP_BYTES, dump, quote

TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def printed(value: Any) -> str:
    """By rapidjson's own writer."""
    text: str = rapidjson.dumps(value, indent=4, write_mode=rapidjson.WM_SINGLE_LINE_ARRAY, ensure_ascii=False)
    return text


@given(VALUES)
def test_dumps_as_rapidjson_prints(value: Any) -> None:
    expected = printed(value)
    if len(expected.encode()) < DUMP_BYTES:
        assert dump(value) == expected
    else:
        assert expected.startswith(dump(value))
        assert len(dump(value).encode()) >= DUMP_BYTES


@given(st.text(st.characters(codec="utf-8")))
def test_quotes_as_rapidjson_does(text: str) -> None:
    assert quote(text) == printed(text)
    assert json.loads(quote(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e22, "1e+22"),
        ([1.0, 1e22, float("nan")], "[1.0, 1e22, NaN]"),
        ({"b64": [{}]}, '{\n    "b64": [{}]\n}'),
        ("a\x01\x7f/é", '"a\\u0001\x7f/é"'),
    ],
)
def test_dumps(value: Any, text: str) -> None:
    assert dump(value) == text


def test_long_values_are_cut_after_a_whole_token() -> None:
    assert dump([12345] * 100) == "[" + "12345, " * 36 + "12345"
    assert dump("x" * 1000) == f'"{"x" * 1000}"'
