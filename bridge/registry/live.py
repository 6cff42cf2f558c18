"""What selectors resolve to now, and what made them move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical, slots
from bridge.registry.events import label_subject, model_subject
from bridge.registry.live_events import Cause, LiveMoved, served
from bridge.registry.modelmesh_events import vmodel_subject
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
    """A selector resolves to something else now; to nothing with a copy where `served` is None.

    `label` is empty for what a request without one gets.
    """

    kind: str
    name: str
    served: Served | None
    label: str = ""

    @property
    def subject(self) -> str:
        if self.label:
            return label_subject(self.name, self.label)
        return vmodel_subject(self.name) if self.kind == VMODEL else model_subject(self.name)


MODEL, VMODEL = "model", "vmodel"


def read_live(connection: Connection) -> dict[str, JsonObject]:
    """What each selector that is served resolves to, by subject."""
    rows = connection.execute(sa.select(live.c.selector, live.c.state).order_by(live.c.selector)).all()
    states = ((selector, served(_loads(state))) for selector, state in rows)
    return {selector: state for selector, state in states if state is not None}


def record_moves(tx: Transaction, moves: Sequence[Move]) -> None:
    """Write the moves that are news, each with what caused it."""
    told: dict[str, JsonObject | None] = {}
    for move in moves:
        row = tx.get(live, selector=move.subject)
        before = told.get(move.subject, served(_loads(row["state"])) if row is not None else None)
        after = _state(tx, move.served) if move.served is not None else None
        told[move.subject] = after
        if before != after:
            cause = _cause(tx, move.subject, before, after, row["seq"] if row is not None else 0)
            tx.emit(LiveMoved(move.subject, before, after, cause))


def refresh(tx: Transaction, model: str, version: int) -> None:
    """More is known of the content of a version: say so of every selector that resolves to it."""
    for row in tx.find(live):
        before = served(_loads(row["state"]))
        if before is not None and (before["model"], before.get("version")) == (model, version):
            after = _state(tx, ServedVersion(model, version, tuple(before["versions"])))
            if before != after:
                tx.emit(LiveMoved(row["selector"], before, after, _kept_cause(tx, row)))


def close_all(tx: Transaction, until: int | None) -> None:
    """Nothing is served any more: since now, or since `until`, the last heartbeat of the last bridge."""
    for row in tx.find(live):
        before = served(_loads(row["state"]))
        if before is not None:
            tx.emit(LiveMoved(row["selector"], before, None, until=until))


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


def _cause(
    tx: Transaction, subject: str, before: JsonObject | None, after: JsonObject | None, moved: int
) -> Cause | None:
    """The latest event that can have caused the move after that with the sequence number `moved`.

    A version that only comes back (after a restart, a lost copy) is there for the reason for which it was there before.
    """
    state = after or before or {}
    model = model_subject(str(state["model"]))
    found = [cause for cause in _intents(tx, subject, model) if cause.seq > moved]
    if after is not None:
        earlier = _earlier(tx, subject)
        if earlier is not None and _same(served(_loads(earlier["after"])), after):
            found.append(_kept(earlier))
        elif "version" in after:
            found += [cause for cause in _discovery(tx, model, after["version"]) if cause.seq > moved]
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
    """How the version was found, the last time."""
    in_slot = events.c.slot == slots.version_slot(version)
    query = _NEWEST.where(events.c.subject == model, in_slot).limit(_LOOK_BACK)
    for row in tx.connection.execute(query).mappings():
        if (_loads(row["after"]) or {}).get("state") == VersionState.START.name:
            return [_as_cause(row)]
    return []


def _earlier(tx: Transaction, subject: str) -> RowMapping | None:
    """The last move of the selector to something that was served."""
    query = _NEWEST.where(events.c.subject == subject, events.c.slot == slots.LIVE).limit(2)
    rows: Iterable[RowMapping] = tx.connection.execute(query).mappings()
    return next((row for row in rows if served(_loads(row["after"])) is not None), None)


def _same(before: JsonObject | None, after: JsonObject) -> bool:
    keys = ("model", "version", "generation")
    return before is not None and all(before.get(key) == after.get(key) for key in keys)


def _kept(row: RowMapping) -> Cause:
    """The cause that an earlier move gave."""
    told = (_loads(row["after"]) or {}).get("cause")
    return Cause(told["seq"], told["action"], _actor(row)) if told else _as_cause(row)


def _kept_cause(tx: Transaction, row: RowMapping) -> Cause | None:
    moved = tx.connection.execute(_NEWEST.where(events.c.seq == row["seq"])).mappings().first()
    return _kept(moved) if moved is not None else None


def _as_cause(row: RowMapping) -> Cause:
    return Cause(row["seq"], row["action"], _actor(row))


def _actor(row: RowMapping) -> Actor:
    return Actor(row["actor"], row["source"], row["reason"], row["request_id"])


def _loads(text: str | None) -> Any:
    return None if text is None else canonical.loads(text)


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
