"""The rows of rollback pins: which versions with which contents a model serves, whatever its policy says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical
from bridge.registry.records import JsonObject
from bridge.registry.rollback_records import Pin, PinnedContent
from bridge.registry.tables import rollback_pins
from bridge.registry.transaction import Transaction


def read_pins(connection: Connection, model: str | None = None) -> dict[str, Pin]:
    """The pins by model."""
    query = sa.select(rollback_pins)
    if model is not None:
        query = query.where(rollback_pins.c.model == canonical.clean(model))
    return {row["model"]: _pin(row) for row in connection.execute(query).mappings()}


def find_pin(tx: Transaction, model: str) -> Pin | None:
    """A model's pin, its row locked."""
    row = tx.get(rollback_pins, model=model)
    return _pin(row) if row is not None else None


def write_pin(tx: Transaction, model: str, contents: Sequence[PinnedContent], entry: JsonObject | None) -> Pin:
    """Have a model held at these contents; no event."""
    delete_pin(tx, model)
    ordered = tuple(sorted(contents, key=lambda content: content.version))
    tx.insert(
        rollback_pins,
        model=model,
        contents=canonical.dumps([asdict(content) for content in ordered]),
        entry=None if entry is None else canonical.dumps(entry),
        since=tx.now,
    )
    return Pin(model, ordered, entry, tx.now)


def delete_pin(tx: Transaction, model: str) -> None:
    """Have a model held no more; no event."""
    tx.delete(rollback_pins, model=model)


def _pin(row: RowMapping) -> Pin:
    contents = tuple(PinnedContent(**item) for item in canonical.loads(row["contents"]))
    entry = None if row["entry"] is None else canonical.loads(row["entry"])
    return Pin(row["model"], contents, entry, row["since"])
