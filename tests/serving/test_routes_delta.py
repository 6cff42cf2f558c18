"""Snapshots told by what changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.serving.routes import EMPTY, RegisteredRoute, Routes, VModelRoute
from bridge.serving.routes_delta import dumps, loads
from tests.serving import snapshots

ONE = snapshots.routes(snapshots.model("a", [snapshots.servable(version=1)]), epoch=1)


def moved(epoch: int, **changes: object) -> Routes:
    return replace(ONE, epoch=epoch, **changes)  # type: ignore[arg-type]


MODEL = next(iter(ONE.models.values()))
HISTORY = (
    EMPTY,
    ONE,
    moved(2, configured=True),
    moved(3, models={**ONE.models, "b": snapshots.model("b", [])}),
    moved(4, models={"b": snapshots.model("b", [])}),
    moved(5, models={"a": replace(MODEL, labels={"stable": 1})}, vmodels={"v": VModelRoute("v", "r")}),
    moved(6, registered={"r": RegisteredRoute("r")}, instances={}),
)


@pytest.mark.parametrize("start", range(len(HISTORY)))
def test_changes_make_the_next_snapshot_of_the_last_one(start: int) -> None:
    received = HISTORY[start]
    for old, new in zip(HISTORY[start:], HISTORY[start + 1 :], strict=False):
        received = loads(received, dumps(old, new))
        assert received == new
    assert loads(HISTORY[start], dumps(EMPTY, HISTORY[-1])) == HISTORY[-1]


def test_what_stays_is_not_told_again() -> None:
    many = moved(2, models={f"m{number}": snapshots.model(f"m{number}", []) for number in range(100)})
    again = replace(many, epoch=3, models={name: replace(model) for name, model in many.models.items()})
    assert len(dumps(many, again)) < 200
    assert loads(many, dumps(many, again)).models is many.models


def test_changes_of_another_snapshot_are_refused() -> None:
    with pytest.raises(ValueError, match="a change of snapshot 1 came after snapshot 5"):
        loads(HISTORY[5], dumps(ONE, HISTORY[2]))
