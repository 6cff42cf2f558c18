"""Timelines are pure functions of intervals."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.console.pages import timeline
from bridge.console.pages.timeline import DAY, HOUR, LEAST_WIDTH, MINUTE, SECOND, Moment
from bridge.registry.history_records import LiveInterval

NOW = 1_800_000_000 * SECOND


def interval(start: int, end: int | None, version: int, *versions: int, subject: str = "model:m") -> LiveInterval:
    """From and to in seconds before NOW."""
    state: dict[str, Any] = {"model": "m", "version": version, "versions": list(versions or (version,))}
    ends = None if end is None else NOW - end * SECOND
    return LiveInterval(subject, state, NOW - start * SECOND, ends, start, end, "anna", "admin", "", "")


def spans(intervals: list[LiveInterval]) -> list[tuple[int, int | None]]:
    return [
        ((NOW - item.start) // SECOND, None if item.end is None else (NOW - item.end) // SECOND) for item in intervals
    ]


Drawn = list[tuple[str, float, float, int]]


@pytest.mark.parametrize(
    ("intervals", "span", "drawn"),
    [
        ([], None, []),
        ([interval(100, None, 1)], None, [("1", 0, 100, 0)]),
        ([interval(100, 50, 1), interval(50, None, 2)], None, [("1", 0, 50, 0), ("2", 50, 50, 1)]),
        ([interval(100, 75, 1), interval(50, 25, 2)], None, [("1", 0, 25, 0), ("2", 50, 25, 1)]),
        (
            [interval(100, 50, 1), interval(50, 20, 2), interval(20, None, 1)],
            None,
            [("1", 0, 50, 0), ("2", 50, 30, 1), ("1", 80, 20, 0)],
        ),
        (
            [interval(200, 150, 1), interval(150, 50, 2), interval(50, None, 3)],
            100,
            [("2", 0, 50, 1), ("3", 50, 50, 2)],
        ),
        ([interval(200, 100, 1)], 100, []),
        (
            [
                interval(100_000, None, 1),
            ],
            10,
            [("1", 0, 100, 0)],
        ),
        (
            [interval(100_000, 1, 1), interval(1, None, 2)],
            None,
            [("1", 0, 99.999, 0), ("2", 100 - LEAST_WIDTH, LEAST_WIDTH, 1)],
        ),
    ],
    ids=[
        *("nothing", "one", "two in a row", "with a pause", "back again"),
        *("cut at the window", "before the window", "through the window", "too short to see"),
    ],
)
def test_segments(intervals: list[LiveInterval], span: int | None, drawn: Drawn) -> None:
    found = timeline.build({"requests": intervals}, [], NOW, span and span * SECOND)
    segments = [segment for lane in found.lanes for segment in lane.segments]
    assert [(item.text, item.x, item.width, item.tone) for item in segments] == [
        (text, pytest.approx(x, abs=0.01), pytest.approx(width, abs=0.01), tone) for text, x, width, tone in drawn
    ]
    assert all(item.x >= 0 and item.x + item.width <= 100.001 for item in segments)


def test_the_window_begins_with_the_first_that_is_known() -> None:
    found = timeline.build({"a": [interval(60, None, 1)], "b": []}, [Moment(NOW - 90 * SECOND, "#3 load failed")], NOW)
    assert (found.start, found.end) == (NOW - 90 * SECOND, NOW)
    assert [lane.name for lane in found.lanes] == ["a", "failures"]
    [mark] = found.lanes[1].marks
    assert (mark.text, mark.x) == ("#3 load failed", 0)


def test_without_anything_the_window_is_the_last_hour() -> None:
    found = timeline.build({}, [], NOW)
    assert (found.end - found.start, found.lanes) == (HOUR, ())


@pytest.mark.parametrize("span", [2 * SECOND, MINUTE, 5 * MINUTE, HOUR, 5 * HOUR, DAY, 7 * DAY, 400 * DAY, 9000 * DAY])
def test_the_axis_has_a_few_marks_at_round_times(span: int) -> None:
    axis = timeline.build({}, [], NOW, span).axis
    assert 1 <= len(axis) <= timeline.MARKS + 1
    assert all(0 <= mark.x <= 100 for mark in axis)
    assert len({mark.text for mark in axis}) == len(axis)


def test_midnight_is_marked_by_its_date() -> None:
    texts = [mark.text for mark in timeline.build({}, [], NOW, DAY).axis]
    assert texts == ["12:00", "18:00", "2027-01-15", "06:00"]


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([], {}),
        ([interval(9, None, 3, 2, 3)], {3: [(9, None)], 2: [(9, None)]}),
        (
            [interval(9, 6, 2, 1, 2), interval(6, 3, 3, 2, 3), interval(3, None, 3)],
            {3: [(6, None)], 2: [(9, 3)], 1: [(9, 6)]},
        ),
        ([interval(9, 6, 1), interval(3, None, 1)], {1: [(9, 6), (3, None)]}),
    ],
    ids=["nothing", "two at once", "one after the other", "with a pause"],
)
def test_when_each_version_could_be_called(
    intervals: list[LiveInterval], expected: dict[int, list[tuple[int, int | None]]]
) -> None:
    found = timeline.by_version(intervals)
    assert {version: spans(found[version]) for version in found} == expected
    assert list(found) == sorted(found, reverse=True)
    assert all(item.state["version"] == version for version, items in found.items() for item in items)
