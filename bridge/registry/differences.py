"""What differs between two states of the history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.registry import slots
from bridge.registry.history import read_state
from bridge.registry.history_records import Aspect, Diff, Fact, StateAt, SubjectDiff, SubjectState, changes
from bridge.registry.tables import events

EVENTS_SHOWN = 100
"""Of each aspect, where one subject is asked for."""


def read_diff(connection: Connection, from_at: int, to_at: int, now: int, subject: str | None = None) -> Diff:
    """What differs at `to_at` from what was at `from_at`. Raises what `history.seq_at` raises."""
    before = read_state(connection, from_at, now, subject)
    after = read_state(connection, to_at, now, subject)
    found = tuple(_differences(before, after))
    if subject is not None:
        found = tuple(_with_events(connection, difference, before.seq, after.seq) for difference in found)
    return Diff(from_at, to_at, found)


def _differences(before: StateAt, after: StateAt) -> Iterator[SubjectDiff]:
    earlier, later = _by_subject(before), _by_subject(after)
    for subject in sorted(earlier.keys() | later.keys()):
        old, new = earlier.get(subject, _nothing(subject)), later.get(subject, _nothing(subject))
        for aspect in Aspect:
            if _marks(old, aspect) == _marks(new, aspect):
                continue
            found = tuple(changes(_value(old, aspect), _value(new, aspect)))
            if found:
                yield SubjectDiff(subject, aspect, found, _newer(old, new, aspect))


def _by_subject(state: StateAt) -> dict[str, SubjectState]:
    return {item.subject: item for item in state.subjects}


def _nothing(subject: str) -> SubjectState:
    return SubjectState(subject, None, None, ())


def _value(state: SubjectState, aspect: Aspect) -> Any:
    if aspect is Aspect.OBSERVED:
        return {_key(fact): fact.state for fact in state.observed}
    fact = state.wanted if aspect is Aspect.WANTED else state.live
    return fact.state if fact is not None else None


def _key(fact: Fact) -> str:
    """What one of several observed facts is about: a version, or the subject itself."""
    return str((fact.state or {}).get("version", "")) if fact.action == "version observed" else "state"


def _facts(state: SubjectState, aspect: Aspect) -> tuple[Fact, ...]:
    if aspect is Aspect.OBSERVED:
        return state.observed
    fact = state.wanted if aspect is Aspect.WANTED else state.live
    return (fact,) if fact is not None else ()


def _marks(state: SubjectState, aspect: Aspect) -> list[tuple[int, bool]]:
    """What tells facts apart without a look at their states: the same event says the same, but where no bridge was."""
    return [(fact.seq, fact.state is None) for fact in _facts(state, aspect)]


def _newer(old: SubjectState, new: SubjectState, aspect: Aspect) -> tuple[int, ...]:
    """The events that made the present facts."""
    known = {fact.seq for fact in _facts(old, aspect)}
    return tuple(sorted(fact.seq for fact in _facts(new, aspect) if fact.seq not in known))


def _with_events(connection: Connection, found: SubjectDiff, after: int, upto: int) -> SubjectDiff:
    """With every event between, the newest of them where there are many."""
    query = (
        sa.select(events.c.seq)
        .where(events.c.subject == found.subject, events.c.seq > after, events.c.seq <= upto, _in_aspect(found.aspect))
        .order_by(events.c.seq.desc())
        .limit(EVENTS_SHOWN)
    )
    numbers = tuple(sorted(connection.execute(query).scalars()))
    return SubjectDiff(found.subject, found.aspect, found.changes, numbers)


def _in_aspect(aspect: Aspect) -> sa.ColumnElement[bool]:
    if aspect is Aspect.WANTED:
        return events.c.slot.in_((slots.WANTED, slots.REGISTERED, slots.PIN))
    if aspect is Aspect.LIVE:
        return events.c.slot == slots.LIVE
    return sa.or_(events.c.slot.in_((slots.STATE, slots.PROCESS)), events.c.slot.startswith(slots.VERSION))
