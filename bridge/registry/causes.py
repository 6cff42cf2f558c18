"""Which event made a selector resolve to something else, and who was behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from bridge.registry import canonical, slots
from bridge.registry.events import model_subject
from bridge.registry.live_events import Cause, same_version, served
from bridge.registry.records import Actor, JsonObject
from bridge.registry.tables import events
from bridge.registry.transaction import Transaction

POLLER = "poller"
"""Source of the events of what a look at a base path found that nobody asked for."""

_INTENTS = (slots.WANTED, slots.PIN, slots.REGISTERED)
_START = '"state":"START"'
"""A version was discovered, in the canonical JSON of what was observed."""


def find_cause(
    tx: Transaction, subject: str, before: JsonObject | None, after: JsonObject | None, moved: int
) -> Cause | None:
    """The latest event since the move with the sequence number `moved` that can have caused the next one.

    A version that only comes back (after a restart, a lost copy) is there for the reason for which it was there before.
    """
    model = model_subject(str((after or before or {})["model"]))
    found = _candidates(tx, subject, model, (after or {}).get("version"))
    causes = [_as_cause(row) for row in found if row["kind"] == "intent" and row["seq"] > moved]
    if after is not None:
        earlier = next((row for row in found if row["kind"] == "served" and _served(row) is not None), None)
        if earlier is not None and same_version(_served(earlier), after):
            causes.append(cause_of(earlier))
        else:
            causes += [_as_cause(row) for row in found if row["kind"] == "found" and _counts(row, moved)]
    return max(causes or _last_other(tx, model), key=lambda cause: cause.seq, default=None)


def kept_cause(tx: Transaction, moved: int) -> Cause | None:
    """What caused the move with that sequence number."""
    query = sa.select(*_COLUMNS).where(events.c.seq == moved)
    row = tx.connection.execute(query).mappings().one_or_none()
    return cause_of(row) if row is not None else None


def cause_of(row: RowMapping) -> Cause:
    """The cause that a move names."""
    told = (_after(row) or {}).get("cause")
    return Cause(told["seq"], told["action"], _actor(row)) if told else _as_cause(row)


def _candidates(tx: Transaction, subject: str, model: str, version: int | None) -> Sequence[RowMapping]:
    """Newest first, in one statement: as `intent` the last words of those who want something of the selector or its
    model, as `served` the last moves of the selector, as `found` how its version was discovered the last time."""
    parts = list(_parts(subject, model, version))
    rows = tx.connection.execute(sa.union_all(*parts)).mappings().all()
    return sorted(rows, key=lambda row: -row["seq"])


def _parts(subject: str, model: str, version: int | None) -> Iterator[sa.Select[Any]]:
    for about in dict.fromkeys((subject, model)):
        for slot in _INTENTS:
            yield _newest("intent", about, slot)
    yield _newest("served", subject, slots.LIVE, limit=2)
    if version is not None:
        yield _newest("found", model, slots.version_slot(version), events.c.after.contains(_START, autoescape=True))


def _newest(kind: str, subject: str, slot: str, *more: sa.ColumnElement[bool], limit: int = 1) -> sa.Select[Any]:
    query = (
        sa.select(sa.literal(kind).label("kind"), *_COLUMNS)
        .where(events.c.subject == subject, events.c.slot == slot, *more)
        .order_by(events.c.seq.desc())
        .limit(limit)
    )
    return sa.select(query.subquery())


def _counts(row: RowMapping, moved: int) -> bool:
    """A version that was looked for by somebody's wish is there by that wish."""
    return bool(row["seq"] > moved and row["source"] == POLLER)


def _last_other(tx: Transaction, model: str) -> list[Cause]:
    """The last event of the model that is no move."""
    query = sa.select(*_COLUMNS).where(events.c.subject == model, events.c.slot != slots.LIVE)
    rows = tx.connection.execute(query.order_by(events.c.seq.desc()).limit(1)).mappings()
    return [_as_cause(row) for row in rows]


def _served(row: RowMapping) -> JsonObject | None:
    return served(_after(row))


def _as_cause(row: RowMapping) -> Cause:
    return Cause(row["seq"], row["action"], _actor(row))


def _actor(row: RowMapping) -> Actor:
    return Actor(row["actor"], row["source"], row["reason"], row["request_id"])


def _after(row: RowMapping) -> Any:
    return None if row["after"] is None else canonical.loads(row["after"])


_COLUMNS = tuple(events.c[name] for name in ("seq", "action", "actor", "source", "reason", "request_id", "after"))
