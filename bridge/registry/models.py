"""Models as they are wanted, with their policies and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.errors import AlreadyExists, InvalidArgument, NotFound
from bridge.registry import canonical
from bridge.registry.events import LabelRemoved, LabelSet, ModelAdded, ModelChanged, ModelRemoved, PolicySet
from bridge.registry.names import check_name
from bridge.registry.pins import delete_pin, find_pin, read_pins, write_pin
from bridge.registry.records import JsonObject, Model, ModelSpec, Owner
from bridge.registry.rollback_events import RollbackPinned, RollbackUnpinned
from bridge.registry.rollback_records import Pin, PinnedContent
from bridge.registry.tables import models, version_labels
from bridge.registry.transaction import Transaction


def read_models(connection: Connection, *, name: str | None = None, removed: bool = False) -> tuple[Model, ...]:
    """Models by name; removed ones only when asked for."""
    query = sa.select(models)
    if name is not None:
        query = query.where(models.c.name == canonical.clean(name))
    if not removed:
        query = query.where(models.c.present)
    rows = connection.execute(query).mappings().all()
    labels, pins = _labels_by_model(connection, name), read_pins(connection, name)
    found = (_model(row, labels.get(row["name"], {}), pins.get(row["name"])) for row in rows)
    return tuple(sorted(found, key=lambda model: model.name))


def read_model(connection: Connection, name: str) -> Model:
    """Raises NotFound for a model that is not there now."""
    found = read_models(connection, name=name)
    if not found:
        raise _unknown(name)
    return found[0]


def put_model(tx: Transaction, spec: ModelSpec, owner: Owner) -> bool:
    """Have `spec` be the model's content. Raises AlreadyExists if somebody else owns that name."""
    check_spec(spec)
    previous = find_model(tx, spec.name)
    if previous is None or not previous.present:
        write_model(tx, spec, owner, new=previous is None)
        tell_change(tx, spec.name, None, spec.wanted())
        return True
    check_owner(previous, owner)
    if previous.wanted() == spec.wanted():
        return False
    write_model(tx, spec, owner, new=False)
    tell_change(tx, spec.name, previous.wanted(), spec.wanted())
    return True


def remove_model(tx: Transaction, name: str, owner: Owner) -> None:
    """Raises NotFound, or AlreadyExists if somebody else owns that name."""
    model = locked_model(tx, name)
    check_owner(model, owner)
    lift_pin(tx, name)
    erase_model(tx, name)
    tell_change(tx, name, model.wanted(), None)


def set_policy(tx: Transaction, name: str, policy: JsonObject) -> bool:
    model = locked_model(tx, name)
    if dict(model.policy) == dict(policy):
        return False
    tx.update(models, {"name": name}, policy=canonical.dumps(policy), updated_at=tx.now)
    tx.emit(PolicySet(name, model.wanted(), replace(model, policy=policy).wanted()))
    return True


def set_label(tx: Transaction, name: str, label: str, version: int) -> bool:
    check_name("label", label)
    previous = locked_model(tx, name).labels.get(label)
    if previous == version:
        return False
    if previous is None:
        tx.insert(version_labels, model=name, label=label, version=version, updated_at=tx.now)
    else:
        tx.update(version_labels, {"model": name, "label": label}, version=version, updated_at=tx.now)
    tx.emit(LabelSet(name, label, previous, version))
    return True


def remove_label(tx: Transaction, name: str, label: str) -> bool:
    """Raises NotFound for a model or a label that is not there."""
    previous = locked_model(tx, name).labels.get(label)
    if previous is None:
        raise NotFound(f"Model '{name}' has no label '{label}'.")
    tx.delete(version_labels, model=name, label=label)
    tx.emit(LabelRemoved(name, label, previous))
    return True


def pin_model(tx: Transaction, name: str, contents: Sequence[PinnedContent], entry: JsonObject | None) -> bool:
    """Hold a model at these contents; whether it was not held so before."""
    previous = find_pin(tx, name)
    pin = write_pin(tx, name, contents, entry)
    before = previous.content() if previous else None
    if before != pin.content():
        tx.emit(RollbackPinned(name, before, pin.content()))
    return before != pin.content()


def lift_pin(tx: Transaction, name: str) -> bool:
    """Let a model follow its policy again; whether it was held."""
    previous = find_pin(tx, name)
    if previous is None:
        return False
    delete_pin(tx, name)
    tx.emit(RollbackUnpinned(name, previous.content(), None))
    return True


def tell_change(tx: Transaction, name: str, before: JsonObject | None, after: JsonObject | None) -> None:
    """Emit what happened to the model and to each of its labels between two contents; None is no such model."""
    _tell_labels(tx, name, (before or {}).get("labels", {}), (after or {}).get("labels", {}))
    if before is None and after is not None:
        tx.emit(ModelAdded(name, after))
    elif before is not None and after is None:
        tx.emit(ModelRemoved(name, before))
    elif before is not None and after is not None and _without_labels(before) != _without_labels(after):
        tx.emit(ModelChanged(name, before, after))


def locked_model(tx: Transaction, name: str) -> Model:
    """The model, its row locked: labels and versions below it do not change until the transaction ends."""
    model = find_model(tx, name)
    if model is None or not model.present:
        raise _unknown(name)
    return model


def find_model(tx: Transaction, name: str) -> Model | None:
    """The model, present or removed, its row locked; None if it never was there."""
    row = tx.get(models, name=name)
    return _model(row, _labels(tx, name), find_pin(tx, name)) if row is not None else None


def owned_models(tx: Transaction, owner: Owner) -> dict[str, Model]:
    """The present models of `owner` by name, locked."""
    rows = tx.find(models, owner=owner.value, present=True)
    return {row["name"]: _model(row, _labels(tx, row["name"]), find_pin(tx, row["name"])) for row in rows}


def check_spec(spec: ModelSpec) -> None:
    """Raises InvalidArgument for what the database could not keep as it is."""
    check_name("model name", spec.name)
    if canonical.clean(spec.base_path) != spec.base_path:
        raise InvalidArgument(
            f"The base path '{canonical.cut(spec.base_path)}' of model '{spec.name}' is not valid UTF-8 or holds a NUL."
        )
    for label in spec.labels:
        check_name(f"label of model '{spec.name}'", label)


def check_owner(model: Model, owner: Owner) -> None:
    if model.owner != owner:
        raise AlreadyExists(f"Model '{model.name}' belongs to {model.owner.value}, not to {owner.value}.")


def write_model(tx: Transaction, spec: ModelSpec, owner: Owner, *, new: bool) -> None:
    """Make the rows of the model those of `spec`; no event.

    `new` says that the caller saw no row: if another writer made one since, the insert fails and the change starts
    over.
    """
    values: dict[str, Any] = {
        "owner": owner.value,
        "base_path": spec.base_path,
        "platform": spec.platform,
        "policy": canonical.dumps(spec.policy),
        "logging": canonical.dumps(spec.logging),
        "present": True,
        "updated_at": tx.now,
    }
    if new:
        tx.insert(models, name=spec.name, created_at=tx.now, **values)
    else:
        tx.update(models, {"name": spec.name}, **values)
    tx.delete(version_labels, model=spec.name)
    for label, version in spec.labels.items():
        tx.insert(version_labels, model=spec.name, label=label, version=version, updated_at=tx.now)


def introduce_model(tx: Transaction, spec: ModelSpec, owner: Owner) -> None:
    """Have a row for a model that is tried out, not present; no event, since nothing is wanted by it yet."""
    check_spec(spec)
    known = find_model(tx, spec.name)
    if known is None:
        write_model(tx, spec, owner, new=True)
        erase_model(tx, spec.name)


def erase_model(tx: Transaction, name: str) -> None:
    """Mark the model as removed and drop its labels; no event."""
    tx.delete(version_labels, model=name)
    tx.update(models, {"name": name}, present=False, updated_at=tx.now)


def _tell_labels(tx: Transaction, name: str, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    for label in sorted(before.keys() | after.keys()):
        previous, version = before.get(label), after.get(label)
        if version is None and previous is not None:
            tx.emit(LabelRemoved(name, label, previous))
        elif version is not None and previous != version:
            tx.emit(LabelSet(name, label, previous, version))


def _without_labels(content: JsonObject) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "labels"}


def _labels(tx: Transaction, name: str) -> dict[str, int]:
    return {row["label"]: row["version"] for row in tx.find(version_labels, model=name)}


def _labels_by_model(connection: Connection, name: str | None) -> dict[str, dict[str, int]]:
    query = sa.select(version_labels)
    if name is not None:
        query = query.where(version_labels.c.model == canonical.clean(name))
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(row["model"], {})[row["label"]] = row["version"]
    return found


def _model(row: RowMapping, labels: Mapping[str, int], pin: Pin | None) -> Model:
    values = dict(row)
    values |= {"owner": Owner(row["owner"])} | {name: canonical.loads(row[name]) for name in ("policy", "logging")}
    return Model(**values, labels=dict(sorted(labels.items())), pin=pin)


def _unknown(name: str) -> NotFound:
    return NotFound(f"Model '{canonical.cut(name)}' is not known.")
