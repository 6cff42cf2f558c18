"""What selectors resolve to now, and what made them move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical
from bridge.registry.causes import find_cause, kept_cause
from bridge.registry.live_events import Cause, LiveMoved, same_content, served
from bridge.registry.records import JsonObject
from bridge.registry.tables import live, model_versions, registered_models
from bridge.registry.transaction import Transaction


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
    """What the last move said of a selector; `since` when that began, None for this transaction.

    `cause` is known only of moves of this transaction.
    """

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
        now = _Standing(after, before.since, before.seq, before.cause or kept_cause(tx, before.seq))
    else:
        now = _Standing(after, None, before.seq, find_cause(tx, subject, before.state, after, before.seq))
    tx.emit(LiveMoved(subject, before.state, after, now.cause, since=now.since))
    return now


def _standing(tx: Transaction, row: RowMapping | None) -> _Standing:
    if row is None:
        return _Standing()
    after = _loads(row["state"]) or {}
    state = served(after)
    if state is None:
        return _Standing(seq=row["seq"])
    return _Standing(state, after.get("since", row["since"]), row["seq"])


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


def _loads(text: str | None) -> Any:
    return None if text is None else canonical.loads(text)
