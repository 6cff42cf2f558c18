"""The rules of transition; those of availability with the vectors of TF Serving's own test of it."""

from __future__ import annotations

import pytest

from bridge.lifecycle.transition import (
    RULES,
    Action,
    Candidate,
    Phase,
    Verb,
    availability_preserving,
    resource_preserving,
)
from bridge.settings import SETTINGS

LETTERS = {"N": Phase.NEW, "L": Phase.LOADING, "R": Phase.READY, "U": Phase.UNLOADING, "E": Phase.ERROR}


def candidates(text: str) -> list[Candidate]:
    """`3R*` is version 3, ready and aspired."""
    return [Candidate(int(word[0]), LETTERS[word[1]], word.endswith("*")) for word in text.split()]


@pytest.mark.parametrize(
    ("versions", "action"),
    [
        ("1U 2E 3R* 4N* 5N*", Action(Verb.LOAD, 5)),
        ("3R 4R* 5N*", Action(Verb.UNLOAD, 3)),
        ("2R 3E", Action(Verb.UNLOAD, 2)),
        ("1R* 2E* 3L*", None),
        ("1R 2L*", None),
        ("1R 2E*", None),
        ("1R 2L* 3R*", Action(Verb.UNLOAD, 1)),
        ("1R 2E* 3R*", Action(Verb.UNLOAD, 1)),
        ("1R 2R 3E* 4L*", Action(Verb.UNLOAD, 1)),
        ("1N* 2N*", Action(Verb.LOAD, 2)),
        ("1R 2N*", Action(Verb.LOAD, 2)),
        ("2R 1N*", Action(Verb.LOAD, 1)),
        ("1E*", None),
        ("1N", None),
        ("", None),
    ],
)
def test_availability_first(versions: str, action: Action | None) -> None:
    assert availability_preserving(candidates(versions)) == action


@pytest.mark.parametrize(
    ("versions", "action"),
    [
        ("1R 2N*", Action(Verb.UNLOAD, 1)),
        ("1R 2R 3N*", Action(Verb.UNLOAD, 1)),
        ("1U 2N*", None),
        ("1L 2N*", None),
        ("1E 2N*", Action(Verb.LOAD, 2)),
        ("1N 2N*", Action(Verb.LOAD, 2)),
        ("1R* 2N* 3N*", Action(Verb.LOAD, 3)),
        ("1R* 2L*", None),
        ("1R* 2E*", None),
        ("2R 3E", Action(Verb.UNLOAD, 2)),
        ("", None),
    ],
)
def test_resources_first(versions: str, action: Action | None) -> None:
    assert resource_preserving(candidates(versions)) == action


def test_the_setting_names_the_rules() -> None:
    [setting] = [setting for setting in SETTINGS if setting.name == "transition_policy"]
    assert (setting.choices, setting.default) == (tuple(RULES), "availability_preserving")
