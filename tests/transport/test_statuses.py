from __future__ import annotations

import pytest

from bridge.transport.statuses import encoded


@pytest.mark.parametrize(
    ("message", "header"),
    [
        ("", b""),
        ("a plain: 'sentence' {with} [brackets] ~", b"a plain: 'sentence' {with} [brackets] ~"),
        ("100%", b"100%25"),
        (" x  ", b"%20x%20%20"),
        ("   ", b"%20%20%20"),
        ("a\nb\x7f", b"a%0Ab%7F"),
        ("ü", b"%C3%BC"),
        ("a" * 2000, b"a" * 1024 + b"...TRUNCATED"),
    ],
)
def test_messages(message: str, header: bytes) -> None:
    assert encoded(message) == header
