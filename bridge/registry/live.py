"""What selectors resolve to now, and what made them move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical, slots
from bridge.registry.events import model_subject
from bridge.registry.live_events import Cause, LiveMoved, same_content, same_version, served
from bridge.registry.records import Actor, JsonObject
from bridge.registry.tables import events, live, model_versions, registered_models
from bridge.registry.transaction import Transaction
from bridge.serving.routes import VersionState


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version with a loaded copy, and all versions of its model that have one, highest first."""

    model: str
    version: int
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ServedRegistration:
    """A registered model with a loaded copy."""

    model: str
    generation: int


Served = ServedVersion | ServedRegistration


@dataclass(frozen=True, slots=True)
class Move:
    """The selector `subject` resolves to something else now; to nothing with a copy where `served` is None."""

    subject: str
    served: Served | None


@dataclass(frozen=True, slots=True)
class _Standing:
    """What the last move said of a selector; `since` when that began, None for this transaction."""

    state: JsonObject | None = None
    since: int | None = None
    seq: int = 0
    cause: Cause | None = None


def read_live(connection: Connection) -> dict[str, JsonObject]:
    """What each selector that is served resolves to, by subject."""
    rows = connection.execute(sa.select(live.c.selector, live.c.state).order_by(live.c.selector)).all()
    states = ((selector, served(_loads(state))) for selector, state in rows)
    return {selector: state for selector, state in states if state is not None}


def record_moves(tx: Transaction, moves: Sequence[Move]) -> None:
    """Write the moves that are news, each with what caused it."""
    told: dict[str, _Standing] = {}
    for move in moves:
        before = told.get(move.subject) or _standing(tx, tx.get(live, selector=move.subject))
        after = _state(tx, move.served) if move.served is not None else None
        if before.state != after:
            told[move.subject] = _tell(tx, move.subject, before, after)


def refresh(tx: Transaction, model: str, version: int) -> None:
    """More is known of the content of a version: say so of every selector that resolves to it."""
    for row in tx.find(live):
        before = _standing(tx, row)
        state = before.state
        if state is not None and (state["model"], state.get("version")) == (model, version):
            after = _state(tx, ServedVersion(model, version, tuple(state["versions"])))
            if state != after:
                _tell(tx, row["selector"], before, after)


def close_all(tx: Transaction, until: int | None) -> None:
    """Nothing is served any more: since now, or since `until`, the last heartbeat of the last bridge."""
    for row in tx.find(live):
        before = served(_loads(row["state"]))
        if before is not None:
            tx.emit(LiveMoved(row["selector"], before, None, until=until))


def _tell(tx: Transaction, subject: str, before: _Standing, after: JsonObject | None) -> _Standing:
    if same_content(before.state, after):
        now = _Standing(after, before.since, before.seq, before.cause)
    else:
        now = _Standing(after, None, before.seq, _cause(tx, subject, before, after))
    tx.emit(LiveMoved(subject, before.state, after, now.cause, since=now.since))
    return now


def _standing(tx: Transaction, row: RowMapping | None) -> _Standing:
    if row is None:
        return _Standing()
    after = _loads(row["state"]) or {}
    state = served(after)
    if state is None:
        return _Standing(seq=row["seq"])
    moved = tx.connection.execute(_NEWEST.where(events.c.seq == row["seq"])).mappings().first()
    cause = _kept(moved) if moved is not None else None
    return _Standing(state, after.get("since", row["since"]), row["seq"], cause)


def _state(tx: Transaction, found: Served) -> dict[str, Any]:
    """The state as events show it, with the files that are served."""
    if isinstance(found, ServedRegistration):
        row = _row(tx, registered_models, id=found.model, generation=found.generation)
        return {"model": found.model, "generation": found.generation, "path": row["path"] if row is not None else ""}
    row = _row(tx, model_versions, model=found.model, version=found.version)
    return {
        "model": found.model,
        "version": found.version,
        "versions": list(found.versions),
        "fingerprint": row["fingerprint"] if row is not None else "",
        "path": row["path"] if row is not None else "",
    }


def _row(tx: Transaction, table: sa.Table, **key: Any) -> RowMapping | None:
    query = sa.select(table).where(*(table.c[name] == value for name, value in key.items()))
    return tx.connection.execute(query).mappings().one_or_none()


def _cause(tx: Transaction, subject: str, before: _Standing, after: JsonObject | None) -> Cause | None:
    """The latest event since the last move that can have caused this one.

    A version that only comes back (after a restart, a lost copy) is there for the reason for which it was there before.
    """
    state = after or before.state or {}
    model = model_subject(str(state["model"]))
    found = [cause for cause in _intents(tx, subject, model) if cause.seq > before.seq]
    if after is not None:
        earlier = _earlier(tx, subject)
        if earlier is not None and same_version(served(_loads(earlier["after"])), after):
            found.append(_kept(earlier))
        elif "version" in after:
            found += [cause for cause in _discovery(tx, model, after["version"]) if cause.seq > before.seq]
    return max(found or _last(tx, model, slots.LIVE, other=True), key=lambda cause: cause.seq, default=None)


def _intents(tx: Transaction, subject: str, model: str) -> Iterator[Cause]:
    """The last words of those who want something of the selector and of its model."""
    for about in dict.fromkeys((subject, model)):
        for slot in (slots.WANTED, slots.PIN, slots.REGISTERED):
            yield from _last(tx, about, slot)


def _last(tx: Transaction, subject: str, slot: str, *, other: bool = False) -> list[Cause]:
    """The last event of the subject in the slot, or in any `other` one."""
    in_slot = events.c.slot != slot if other else events.c.slot == slot
    row = tx.connection.execute(_NEWEST.where(events.c.subject == subject, in_slot).limit(1)).mappings().first()
    return [_as_cause(row)] if row is not None else []


def _discovery(tx: Transaction, model: str, version: int) -> list[Cause]:
    """How the version was found, the last time; where it was looked for by somebody's wish, that wish is the cause."""
    in_slot = events.c.slot == slots.version_slot(version)
    query = _NEWEST.where(events.c.subject == model, in_slot).limit(_LOOK_BACK)
    for row in tx.connection.execute(query).mappings():
        if (_loads(row["after"]) or {}).get("state") == VersionState.START.name:
            return [_as_cause(row)] if row["source"] == POLLER else []
    return []


def _earlier(tx: Transaction, subject: str) -> RowMapping | None:
    """The last move of the selector to something that was served."""
    query = _NEWEST.where(events.c.subject == subject, events.c.slot == slots.LIVE).limit(2)
    rows: Iterable[RowMapping] = tx.connection.execute(query).mappings()
    return next((row for row in rows if served(_loads(row["after"])) is not None), None)


def _kept(row: RowMapping) -> Cause:
    """The cause that an earlier move gave."""
    told = (_loads(row["after"]) or {}).get("cause")
    return Cause(told["seq"], told["action"], _actor(row)) if told else _as_cause(row)


def _as_cause(row: RowMapping) -> Cause:
    return Cause(row["seq"], row["action"], _actor(row))


def _actor(row: RowMapping) -> Actor:
    return Actor(row["actor"], row["source"], row["reason"], row["request_id"])


def _loads(text: str | None) -> Any:
    return None if text is None else canonical.loads(text)


POLLER = "poller"
"""Source of the events of what a look at a base path found that nobody asked for."""

_LOOK_BACK = 20
"""Moves of one version's state among which the one is found by which it was discovered."""

_NEWEST = sa.select(
    events.c.seq,
    events.c.action,
    events.c.actor,
    events.c.source,
    events.c.reason,
    events.c.request_id,
    events.c.after,
).order_by(events.c.seq.desc())
