"""The history as it is asked: events by filter, the state at any time, what differs between two.

The state at a time is the last event before it in each slot of each subject (`bridge.registry.slots`), found by index,
so that it costs the same for yesterday as for years ago.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge import moments
from bridge.errors import BridgeError, Code, InvalidArgument
from bridge.registry import canonical, sealing, slots
from bridge.registry.history_records import Fact, HistoryQuery, StateAt, SubjectState
from bridge.registry.journal import record
from bridge.registry.live_events import LiveMoved, served
from bridge.registry.processes import read_gap
from bridge.registry.records import EventRecord
from bridge.registry.tables import events, subjects


def read_history(connection: Connection, query: HistoryQuery) -> tuple[EventRecord, ...]:
    """The events that fit, the newest first unless told otherwise."""
    select = sa.select(events).where(*_bounds(connection, query)).limit(query.limit)
    select = select.order_by(events.c.seq.desc() if query.newest_first else events.c.seq)
    for name in ("subject", "actor", "action"):
        value = getattr(query, name)
        if value is not None:
            select = select.where(_by_index(name, query) == canonical.clean(value))
    return tuple(record(row) for row in connection.execute(select).mappings())


def _bounds(connection: Connection, query: HistoryQuery) -> Iterator[sa.ColumnElement[bool]]:
    """One bound for each end: of two, SQLite would begin to search at the first and step to the other."""
    lowest, most = query.after, query.before
    if query.since is not None:
        lowest = max(lowest, seq_before(connection, query.since))
    if query.until is not None:
        before = seq_before(connection, query.until) + 1
        most = before if most is None else min(most, before)
    yield events.c.seq > lowest
    if most is not None:
        yield events.c.seq < most


def _by_index(name: str, query: HistoryQuery) -> sa.ColumnElement[Any]:
    """The column; beside a subject, which has the fewest events, written so that its index is not taken instead."""
    column: sa.ColumnElement[Any] = events.c[name]
    return column if name == "subject" or query.subject is None else column.concat("")


def seq_before(connection: Connection, at: int) -> int:
    """The last event before the time, 0 for none."""
    return _last_seq(connection, events.c.at < at)


def seq_at(connection: Connection, at: int, now: int) -> int:
    """The last event at that time or before it.

    Raises InvalidArgument for the future, OUT_OF_RANGE before the first event, FailedPrecondition where the history is
    archived.
    """
    if at > now:
        raise InvalidArgument(f"The time {moments.describe(at)} is in the future; it is {moments.describe(now)} now.")
    sealing.require_unsealed(connection, at)
    seq = _last_seq(connection, events.c.at <= at)
    if seq == 0:
        raise BridgeError(_before_the_first(connection, at), Code.OUT_OF_RANGE)
    return seq


def read_state(connection: Connection, at: int, now: int, subject: str | None = None) -> StateAt:
    """The state at a time, of one subject or of all. Raises what `seq_at` raises."""
    seq = seq_at(connection, at, now)
    gap = read_gap(connection, at, now)
    found = _states(connection, seq, subject)
    return StateAt(at, seq, found if gap is None else tuple(_unserved(state, gap[0]) for state in found), gap)


def read_state_after(connection: Connection, seq: int, subject: str | None = None) -> StateAt:
    """The state just after the event `seq`, at its time. Raises OUT_OF_RANGE if there is no such event."""
    at = connection.execute(sa.select(events.c.at).where(events.c.seq == seq)).scalar()
    if at is None:
        raise BridgeError(f"There is no event #{seq}.", Code.OUT_OF_RANGE)
    sealing.require_unsealed(connection, at)
    return StateAt(at, seq, _states(connection, seq, subject), None)


def _last_seq(connection: Connection, condition: sa.ColumnElement[bool]) -> int:
    query = sa.select(events.c.seq).where(condition).order_by(events.c.at.desc(), events.c.seq.desc()).limit(1)
    return connection.execute(query).scalar() or 0


def _before_the_first(connection: Connection, at: int) -> str:
    first = connection.execute(sa.select(events.c.at).order_by(events.c.seq).limit(1)).scalar()
    if first is None:
        return "The history has no event yet."
    return f"The history begins at {moments.describe(first)}; nothing is known of {moments.describe(at)}."


def _states(connection: Connection, seq: int, subject: str | None) -> tuple[SubjectState, ...]:
    by_subject: dict[str, dict[str, Fact]] = defaultdict(dict)
    for row in _last_words(connection, seq, subject):
        by_subject[row[0]][row[1]] = _fact(*row[2:])
    return tuple(_state(name, by_subject[name]) for name in sorted(by_subject))


def _last_words(connection: Connection, seq: int, subject: str | None) -> Sequence[Sequence[Any]]:
    """Subject, slot and columns of the last event up to `seq` in each slot that tells a state."""
    newest = (
        sa.select(*_FACT)
        .where(events.c.subject == subjects.c.subject, events.c.slot == subjects.c.slot, events.c.seq <= seq)
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    if connection.dialect.name == "postgresql":
        last = newest.lateral("last")
        query = sa.select(subjects.c.subject, subjects.c.slot, last).select_from(subjects.join(last, sa.true()))
    else:
        last_seq = newest.with_only_columns(events.c.seq).correlate(subjects).scalar_subquery()
        rows = sa.select(subjects.c.subject, subjects.c.slot, *_FACT)
        query = rows.join_from(subjects, events, events.c.seq == last_seq)
    query = query.where(subjects.c.slot != slots.NOTE)
    if subject is not None:
        query = query.where(subjects.c.subject == canonical.clean(subject))
    return connection.execute(query).all()


_FACT = tuple(events.c[name] for name in ("after", "at", "seq", "actor", "source", "action", "reason"))


def _fact(after: str | None, at: int, seq: int, actor: str, source: str, action: str, reason: str) -> Fact:
    if after is None or action in slots.ENDS:
        return Fact(None, at, seq, actor, source, action, reason)
    state = orjson.loads(after)
    if action == LiveMoved.action:
        cause = state.get("cause")
        since = state.get("since", at)
        return Fact(served(state), since, seq, actor, source, cause["action"] if cause else action, reason)
    return Fact(state, at, seq, actor, source, action, reason)


def _state(subject: str, facts: Mapping[str, Fact]) -> SubjectState:
    versions = [slot for slot in facts if slot.startswith(slots.VERSION)]
    versions.sort(key=slots.version_of, reverse=True)
    observed = tuple(facts[slot] for slot in (slots.STATE, slots.PROCESS, *versions) if slot in facts)
    return SubjectState(subject, _wanted(facts), facts.get(slots.LIVE), observed)


def _wanted(facts: Mapping[str, Fact]) -> Fact | None:
    wanted, registered = facts.get(slots.WANTED), facts.get(slots.REGISTERED)
    if wanted is None or (wanted.state is None and registered is not None):
        return registered
    if wanted.state is None:
        return wanted
    # Labels are subjects of their own, which may have moved since.
    state = {name: value for name, value in wanted.state.items() if name != "labels"}
    pin = facts.get(slots.PIN)
    if pin is not None and pin.state is not None:
        state["pin"] = pin.state
    return replace(wanted if pin is None or pin.seq < wanted.seq else pin, state=state)


def _unserved(state: SubjectState, since: int) -> SubjectState:
    """The state while no bridge is there."""
    if state.live is None or state.live.state is None:
        return state
    return replace(state, live=replace(state.live, state=None, since=max(since, state.live.since)))
