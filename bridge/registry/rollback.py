"""Puts back what selectors meant before, in one transaction each, with the event that tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.errors import FailedPrecondition
from bridge.registry import canonical
from bridge.registry.database import CONFIG_LOCK
from bridge.registry.events import ConfigApplied, label_subject, model_subject
from bridge.registry.models import (
    check_owner,
    find_model,
    lift_pin,
    locked_model,
    pin_model,
    remove_label,
    set_label,
    set_policy,
    tell_change,
    write_model,
)
from bridge.registry.records import JsonObject, Model, Owner
from bridge.registry.rollback_events import RolledBack
from bridge.registry.rollback_records import LabelRollback, ModelRollback
from bridge.registry.tables import events
from bridge.registry.transaction import Transaction


def roll_back_model(tx: Transaction, wanted: ModelRollback) -> None:
    """Hold a model at contents, with its policy and its labels as they were; bring it back if it left.

    Raises FailedPrecondition if the model is not as the rollback was planned for.
    """
    tx.lock(CONFIG_LOCK)
    model = find_model(tx, wanted.spec.name)
    _require_planned(model, wanted)
    if model is None or not model.present:
        write_model(tx, wanted.spec, Owner.CONFIG, new=model is None)
        tell_change(tx, wanted.spec.name, None, wanted.spec.wanted())
    else:
        set_policy(tx, model.name, wanted.spec.policy)
        _set_labels(tx, model.name, model.labels, wanted.spec.labels)
    pin_model(tx, wanted.spec.name, wanted.contents, configured_entry(tx.connection, wanted.spec.name))
    subject = model_subject(wanted.spec.name)
    tx.emit(RolledBack(subject, wanted.reference, wanted.before, wanted.after))


def roll_back_label(tx: Transaction, wanted: LabelRollback) -> None:
    """Point a label at the version that it meant, or take it away. Raises FailedPrecondition, NotFound."""
    present = locked_model(tx, wanted.model).labels.get(wanted.label)
    if present != wanted.expected:
        raise FailedPrecondition(f"Label '{wanted.label}' of model '{wanted.model}' was changed meanwhile.")
    if wanted.version is not None:
        set_label(tx, wanted.model, wanted.label, wanted.version)
    elif present is not None:
        remove_label(tx, wanted.model, wanted.label)
    subject = label_subject(wanted.model, wanted.label)
    tx.emit(RolledBack(subject, wanted.reference, _version(present), _version(wanted.version)))


def unpin(tx: Transaction, name: str) -> bool:
    """Let a model follow its policy again; whether it was held. Raises NotFound."""
    locked_model(tx, name)
    return lift_pin(tx, name)


def configured_entry(connection: Connection, name: str) -> JsonObject | None:
    """The model's entry in the configuration that was applied last, None for none."""
    query = sa.select(events.c.after).where(events.c.action == ConfigApplied.action)
    after = connection.execute(query.order_by(events.c.seq.desc()).limit(1)).scalar_one_or_none()
    entry: Any = canonical.loads(after)["models"].get(name) if after is not None else None
    return entry if isinstance(entry, Mapping) else None


def _require_planned(model: Model | None, wanted: ModelRollback) -> None:
    present = model is not None and model.present
    if model is not None and model.present:
        check_owner(model, wanted.owner)
    state = model.wanted() if model is not None and present else None
    if canonical.dumps(state) != canonical.dumps(wanted.expected):
        raise FailedPrecondition(f"Model '{wanted.spec.name}' was changed meanwhile.")


def _set_labels(tx: Transaction, name: str, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    for label in sorted(before.keys() - after.keys()):
        remove_label(tx, name, label)
    for label, version in sorted(after.items()):
        set_label(tx, name, label, version)


def _version(version: int | None) -> JsonObject | None:
    return None if version is None else {"version": version}
