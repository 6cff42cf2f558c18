from __future__ import annotations

import math

import pytest

from bridge.codec.json_body import parse_object
from bridge.errors import InvalidArgument

DEEP = 500_000


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"  ", "JSON Parse error: The document is empty. at offset: 2"),
        (b"instances = [1, 2]", "JSON Parse error: Invalid value. at offset: 0"),
        (b'{"x" 1}', "JSON Parse error: Missing a colon after a name of object member. at offset: 5"),
        (b'{"x": 1 "y": 2}', "JSON Parse error: Missing a comma or } after an object member. at offset: 8"),
        (b'{"x": [1 2]}', "JSON Parse error: Missing a comma or ] after an array element. at offset: 9"),
        (b'{"x": 1.}', "JSON Parse error: Miss fraction part in number. at offset: 8"),
        (b'{"x": "\\033"}', "JSON Parse error: Invalid escape character in string. at offset: 7"),
        (b'{"x": nan}', "JSON Parse error: Invalid value. at offset: 7"),
        (b'{"x": 1e400}', "JSON Parse error: Number too big to be stored in double. at offset: 6"),
        (b'{"x": "\xff"}', "JSON Parse error: Invalid encoding in string. at offset: 7"),
        (b'\xef\xbb\xbf{"x"}', "JSON Parse error: Missing a colon after a name of object member. at offset: 7"),
        (b"[1, 2.5]", "JSON Value: [1, 2.5] Is not object"),
        (b"2.50", "JSON Value: 2.5 Is not object"),
        (b"null", "JSON Value: null Is not object"),
        (b"[" * DEEP, f"JSON Parse error: Invalid value. at offset: {DEEP}"),
    ],
    ids=lambda value: str(value[:40]),
)
def test_refuses(body: bytes, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_object(body)
    assert refused.value.message == sentence


@pytest.mark.parametrize(
    ("body", "root"),
    [
        (b'{"x": 1} and more {', {"x": 1}),
        (b'{"x": 1}\x00', {"x": 1}),
        (b'\xef\xbb\xbf{"x": 1}', {"x": 1}),
        (b'{"x": 1, "y": 0, "x": 2}', {"x": 1, "y": 0}),
        (b'{"x": [Inf, -Infinity, 1, 1.0, 1e0]}', {"x": [math.inf, -math.inf, 1, 1.0, 1.0]}),
        (
            b'{"x": [18446744073709551615, 18446744073709551616, -9223372036854775809]}',
            {"x": [2**64 - 1, 2.0**64, -(2.0**63)]},
        ),
        (b'{"x": "\\u00e9\\ud83d\\ude00\\u0000"}', {"x": "é😀\0"}),
    ],
)
def test_accepts(body: bytes, root: dict[str, object]) -> None:
    assert repr(parse_object(body)) == repr(root)


def test_deep_nesting_under_an_ignored_key() -> None:
    nested = b"[" * DEEP + b'"]\\"]", {}' + b"]" * DEEP
    root = parse_object(b'{"a": "\\"[[", "nested": ' + nested + b', "instances": [1, 2]} trailing')
    assert root["a"] == '"[['
    assert root["instances"] == [1, 2]
