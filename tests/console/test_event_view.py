"""Events as pages show them."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.console.pages import event_view
from bridge.registry.records import EventRecord


def event(action: str, before: Any = None, after: Any = None, subject: str = "model:m") -> EventRecord:
    return EventRecord(7, 1_800_000_000_000_000, "anna", "admin", subject, action, before, after, "", "", "")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": "x"}, {"a": 2, "b": "x"}, [("a", "1", "2", "changed")]),
        (None, {"version": 3}, [("version", None, "3", "added")]),
        ({"version": 3}, None, [("version", "3", None, "removed")]),
        (
            {"p": {"latest": {"n": 1}}},
            {"p": {"all": {}}},
            [("p.all", None, "{}", "added"), ("p.latest.n", "1", None, "removed")],
        ),
        ({"p": None}, {"p": {"x": {"y": [1, 2]}}}, [("p.x.y", None, "[1,2]", "added")]),
        (None, {"until": 1_800_000_000_000_000}, [("until", None, "2027-01-15T08:00:00Z", "added")]),
        ({"t": "<b>"}, {"t": True}, [("t", "<b>", "true", "changed")]),
    ],
)
def test_differences(before: Any, after: Any, expected: list[tuple[str, str | None, str | None, str]]) -> None:
    found = event_view.differences(before, after)
    assert [(item.path, item.before, item.after, item.kind) for item in found] == expected


@pytest.mark.parametrize(
    ("action", "before", "after", "gist"),
    [
        ("live moved", {"model": "m", "version": 1}, {"model": "m", "version": 2}, ("1", "2")),
        ("live moved", None, {"model": "a", "generation": 4}, ("nothing", "a")),
        ("live moved", {"version": 1}, None, ("1", "nothing")),
        ("label set", None, {"version": 2}, ("nothing", "2")),
        ("version observed", {"state": "LOADING"}, {"state": "AVAILABLE"}, ("loading", "available")),
        ("version observed", {"state": "END"}, {"state": "END"}, None),
        ("vmodel promoted", {"active": "a"}, {"active": "b"}, ("a", "b")),
        ("config applied", {"models": {}}, {"models": {"m": {}}}, None),
    ],
)
def test_the_gist(action: str, before: Any, after: Any, gist: tuple[str, str] | None) -> None:
    assert event_view.view(event(action, before, after)).gist == gist


@pytest.mark.parametrize(
    ("action", "after", "trouble"),
    [
        ("version observed", {"code": 0}, False),
        ("version observed", {"code": 5}, True),
        ("load failed", {"code": 13}, True),
        ("server lost", None, True),
        ("label set", {"version": 1}, False),
    ],
)
def test_what_counts_as_trouble(action: str, after: Any, trouble: bool) -> None:
    assert event_view.view(event(action, None, after)).trouble == trouble


def test_the_cause_of_a_move_is_told_apart_from_what_differs() -> None:
    after = {"model": "m", "version": 2, "cause": {"seq": 5, "action": "label set"}}
    view = event_view.view(event("live moved", {"model": "m", "version": 1}, after))
    assert view.cause == (5, "label set")
    assert [item.path for item in view.differences] == ["version"]
    closed = event_view.view(event("live moved", {"version": 1}, {"cause": {"seq": 5, "action": "label set"}}))
    assert [(item.path, item.kind) for item in closed.differences] == [("version", "removed")]


@pytest.mark.parametrize(
    ("subject", "address"),
    [
        ("model:a b/&?", "/models?name=a+b%2F%26%3F"),
        ("vmodel:v", "/vmodels?id=v"),
        ("label:m/<x>", "/history?subject=label%3Am%2F%3Cx%3E"),
        ("server", "/history?subject=server"),
    ],
)
def test_every_subject_has_a_page(subject: str, address: str) -> None:
    assert event_view.subject_url(subject) == address
