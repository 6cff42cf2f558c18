"""Times as people write them."""

from __future__ import annotations

import pytest

from bridge import moments
from bridge.errors import InvalidArgument

NOON = 1_774_958_400_000_000
"""2026-03-31T12:00:00Z"""


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-31T12:00:00Z",
        "2026-03-31T12:00",
        " 2026-03-31 12:00:00 ",
        "2026-03-31T14:00:00+02:00",
        "2026-03-31T08:00:00.000000-04:00",
        "20260331T120000Z",
    ],
)
def test_the_same_time_in_many_words(text: str) -> None:
    assert moments.parse(text, NOON) == NOON


def test_a_date_is_its_first_moment() -> None:
    assert moments.parse("2026-03-31", NOON) == NOON - 12 * 3600 * 1_000_000


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-02-30", "12:00", "2026-03-31T25:00", "1774958400", "0000-01-01"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^'{text}' is not a time; write it as 2026-03-31T10:00"):
        moments.parse(text, NOON)


@pytest.mark.parametrize("text", ["2026-03-31T12:00:00.000001Z", "2026-03-31T12:00-00:01", "9999-12-31T23:59:59-23:59"])
def test_the_future_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is in the future; it is 2026-03-31T12:00:00Z now"):
        moments.parse(text, NOON)


@pytest.mark.parametrize(
    ("at", "expected"), [(NOON, "2026-03-31T12:00:00Z"), (NOON + 1, "2026-03-31T12:00:00.000001Z")]
)
def test_describe(at: int, expected: str) -> None:
    assert moments.describe(at) == expected
    assert moments.parse(expected, at) == at
