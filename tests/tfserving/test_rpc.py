from __future__ import annotations

import pytest

from bridge.tfserving.rpc import status_message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", ""),
        ("a" * 1024, "a" * 1024),
        ("a" * 1025, "a" * 1024 + "...TRUNCATED"),
        ("a" * 1023 + "ü", "a" * 1023 + "...TRUNCATED"),
        ("a" * 1022 + "ü", "a" * 1022 + "ü"),
        ("a" * 1021 + "\U0001f600", "a" * 1021 + "...TRUNCATED"),
        ("not \udcff text", "not ? text"),
    ],
)
def test_status_messages(message: str, expected: str) -> None:
    assert status_message(message) == expected
