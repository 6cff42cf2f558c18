from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec.base64_text import decode_base64, encode_base64
from bridge.errors import InvalidArgument


@given(st.binary())
def test_round_trip(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert encode_base64(data) == text
    assert decode_base64(text) == data
    assert decode_base64(text.rstrip("=")) == data
    assert decode_base64(text.replace("=", ".")) == data
    assert decode_base64("\n".join(text)) == data


def test_unused_bits_are_ignored() -> None:
    assert decode_base64("aGVsbG9=") == b"hello"


@pytest.mark.parametrize("text", ["_-8=", "a", "aGVsbG8==", "aGVsbA=", "aG=VsbG8", "====", "é", "aGVs!"])
def test_refuses(text: str) -> None:
    with pytest.raises(InvalidArgument, match="Unable to base64 decode"):
        decode_base64(text)
