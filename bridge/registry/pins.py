"""Rollback pins: which versions with which contents a model serves, whatever its policy says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical
from bridge.registry.records import JsonObject, ModelSpec
from bridge.registry.rollback_events import RollbackPinned, RollbackUnpinned
from bridge.registry.rollback_records import Pin, PinnedContent
from bridge.registry.tables import rollback_pins
from bridge.registry.transaction import Transaction

CONFIGURATION = "the configuration says something else of the model"
COMMAND = "it was lifted by command"
ROLLBACK = "a rollback"
LATER_ROLLBACK = "a later rollback"


def read_pins(connection: Connection, model: str | None = None) -> dict[str, Pin]:
    """The pins by model."""
    query = sa.select(rollback_pins)
    if model is not None:
        query = query.where(rollback_pins.c.model == canonical.clean(model))
    return {row["model"]: _pin(row) for row in connection.execute(query).mappings()}


def find_pin(tx: Transaction, model: str) -> Pin | None:
    row = tx.get(rollback_pins, model=model)
    return _pin(row) if row is not None else None


def set_pin(tx: Transaction, model: str, contents: Sequence[PinnedContent], entry: JsonObject | None) -> bool:
    """Hold a model at these contents; whether it was not held so before."""
    previous = find_pin(tx, model)
    pin = Pin(model, tuple(sorted(contents, key=lambda item: item.version)), entry, tx.now)
    if previous is not None and (previous.contents, previous.entry) == (pin.contents, pin.entry):
        return False
    values = {
        "contents": canonical.dumps([asdict(content) for content in pin.contents]),
        "entry": None if entry is None else canonical.dumps(entry),
        "since": tx.now,
    }
    if previous is None:
        tx.insert(rollback_pins, model=model, **values)
    else:
        tx.update(rollback_pins, {"model": model}, **values)
    tx.emit(RollbackPinned(model, previous.content() if previous else None, pin.content(), ROLLBACK))
    return True


def lift_pin(tx: Transaction, model: str, cause: str) -> bool:
    """Let a model follow its policy again; whether it was held."""
    previous = find_pin(tx, model)
    if previous is None:
        return False
    tx.delete(rollback_pins, model=model)
    tx.emit(RollbackUnpinned(model, previous.content(), None, cause))
    return True


def follow_configuration(tx: Transaction, specs: Sequence[ModelSpec], *, same_text: bool) -> set[str]:
    """Lift the pins of models whose entries differ from those at the time of their pins.

    With `same_text` the configuration is the one that holds already; then models that a rollback brought back although
    it does not list them stay, and are returned.
    """
    entries: Mapping[str, JsonObject] = {spec.name: spec.wanted() for spec in specs}
    staying = set()
    for model, pin in sorted(read_pins(tx.connection).items()):
        entry = entries.get(model)
        if entry is None and pin.entry is None and same_text:
            staying.add(model)
        elif entry is None or pin.entry is None or canonical.dumps(entry) != canonical.dumps(pin.entry):
            lift_pin(tx, model, CONFIGURATION)
    return staying


def _pin(row: RowMapping) -> Pin:
    contents = tuple(PinnedContent(**item) for item in canonical.loads(row["contents"]))
    entry = None if row["entry"] is None else canonical.loads(row["entry"])
    return Pin(row["model"], contents, entry, row["since"])
