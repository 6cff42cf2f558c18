"""For how long selectors resolved to what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical, slots
from bridge.registry.history_records import LiveInterval
from bridge.registry.live_events import same_content, served
from bridge.registry.processes import read_gap
from bridge.registry.tables import events


def read_intervals(
    connection: Connection, subject: str, now: int, version: int | None = None, latest: int | None = None
) -> tuple[LiveInterval, ...]:
    """For how long the subject resolved to what, oldest first.

    With `version` the times for which that version of the model could be called by its number, or the label meant it.
    With `latest` only so many moves are looked at, the last ones.
    """
    found = read_moves(connection, subject, now, latest)
    if version is None:
        return tuple(_joined(found, lambda one, other: same_content(one.state, other.state)))
    return tuple(_joined([item for item in found if _has(item, version)], lambda one, other: True))


def read_moves(connection: Connection, subject: str, now: int, latest: int | None = None) -> tuple[LiveInterval, ...]:
    """For how long the subject resolved to what, an interval for each move, oldest first; of the `latest` moves.

    The last interval is open while something is served; it ends with the last bridge where none is there.
    """
    query = sa.select(events).where(events.c.subject == canonical.clean(subject), events.c.slot == slots.LIVE)
    rows = connection.execute(query.order_by(events.c.seq.desc()).limit(latest)).mappings().all()
    found = list(_moves(reversed(rows)))
    if found and found[-1].end is None:
        gap = read_gap(connection, now, now)
        found[-1] = replace(found[-1], end=max(gap[0], found[-1].start)) if gap is not None else found[-1]
    return tuple(found)


def _moves(rows: Any) -> Iterator[LiveInterval]:
    begun: LiveInterval | None = None
    for row in rows:
        after = orjson.loads(row["after"]) if row["after"] is not None else None
        if begun is not None:
            until = min((after or {}).get("until", row["at"]), row["at"])
            yield replace(begun, end=max(until, begun.start), end_seq=row["seq"])
        begun = _begun(row, after)
    if begun is not None:
        yield begun


def _begun(row: RowMapping, after: Any) -> LiveInterval | None:
    state = served(after)
    if state is None:
        return None
    cause = after.get("cause")
    return LiveInterval(
        subject=row["subject"],
        state=state,
        start=row["at"],
        end=None,
        start_seq=row["seq"],
        end_seq=None,
        actor=row["actor"],
        source=row["source"],
        reason=row["reason"],
        cause=f"{cause['action']} (#{cause['seq']})" if cause else "",
    )


def _joined(
    intervals: Sequence[LiveInterval], same: Callable[[LiveInterval, LiveInterval], bool]
) -> Iterator[LiveInterval]:
    """Those that follow one another without a pause and are the `same` as one, which ends in the state of the last."""
    joined: LiveInterval | None = None
    for interval in intervals:
        if joined is not None and joined.end_seq == interval.start_seq and same(joined, interval):
            joined = replace(joined, state=interval.state, end=interval.end, end_seq=interval.end_seq)
            continue
        if joined is not None:
            yield joined
        joined = interval
    if joined is not None:
        yield joined


def _has(interval: LiveInterval, version: int) -> bool:
    state = interval.state
    versions = state.get("versions", ()) if interval.subject.startswith("model:") else ()
    return version in (*versions, state.get("version"), state.get("generation"))
