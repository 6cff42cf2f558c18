"""The availability-preserving rule, with the vectors of TF Serving's own test of it."""

from __future__ import annotations

import pytest

from bridge.lifecycle.transition import Action, Candidate, Phase, Verb, next_action

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
def test_next_action(versions: str, action: Action | None) -> None:
    assert next_action(candidates(versions)) == action
