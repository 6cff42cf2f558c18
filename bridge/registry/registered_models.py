"""Models that ModelMesh clients registered, and the references of vmodels to them.

Whoever changes them holds `MODELMESH_LOCK`, so that rows which a change reads do not move, and need no lock of their
own: a call that changes nothing then leaves no trace in PostgreSQL's log either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.errors import AlreadyExists, FailedPrecondition, InvalidArgument
from bridge.registry import canonical
from bridge.registry.database import MODELMESH_LOCK
from bridge.registry.modelmesh_events import ModelAutoDeleted, ModelRegistered, ModelUnregistered
from bridge.registry.names import check_name
from bridge.registry.records import LoadFailureRecord, ModelInfo, RegisteredModel
from bridge.registry.tables import load_failures, meta, registered_models, vmodels
from bridge.registry.transaction import Transaction
from bridge.registry.vmodel_rules import check_info

HOUR = 3_600_000_000
WANTED_NOW_AGE = HOUR
UNHURRIED_AGE = 6 * HOUR
"""How long ago a model counts as used when it comes, microseconds: it must not push out what really is in use."""


def assumed_last_use(now: int, load_now: bool, given: int = 0) -> int:
    """When a new model counts as used last, microseconds UTC: as `given`, not later than `now`, or some hours ago."""
    if given > 0:
        return min(given, now)
    return now - (WANTED_NOW_AGE if load_now else UNHURRIED_AGE)


def read_registered_models(connection: Connection) -> tuple[RegisteredModel, ...]:
    """All of them by id."""
    return _read(connection, sa.true())


def find_registered_model(connection: Connection, id: str) -> RegisteredModel | None:
    if canonical.clean(id) != id:
        return None
    found = _read(connection, registered_models.c.id == id)
    return found[0] if found else None


def register_model(
    tx: Transaction, id: str, info: ModelInfo, auto_delete: bool, last_used_at: int
) -> tuple[RegisteredModel, bool]:
    """The model, and whether this call created it. Raises AlreadyExists if it is there with other content."""
    if not id:
        raise InvalidArgument("must provide non-empty modelId")
    check_name("model id", id)
    check_info(id, info)
    tx.lock(MODELMESH_LOCK)
    model = find_registered_model(tx.connection, id)
    if model is None:
        return insert_model(tx, id, info, auto_delete, last_used_at), True
    if model.info != info:
        raise AlreadyExists("Model already exists with different attribute values")
    if last_used_at <= model.last_used_at + HOUR:
        return model, False
    return used_since(tx, model, last_used_at), False


def unregister_model(tx: Transaction, id: str) -> RegisteredModel | None:
    """The model that left, None if there was none. Raises FailedPrecondition while a vmodel refers to it."""
    tx.lock(MODELMESH_LOCK)
    model = find_registered_model(tx.connection, id)
    if model is None:
        return None
    if _is_referred_to(tx.connection, id):
        raise FailedPrecondition(f"Model {id} has referents")
    _erase(tx, model)
    tx.emit(ModelUnregistered(id, model.content()))
    return model


def touch_registered(tx: Transaction, last_used: Mapping[str, int]) -> None:
    """Move the times of last use forward, never back; ids that are not there are passed over.

    Needs no lock: each row is compared and set by itself, always in the same order.
    """
    rows = [{"model": id, "at": at} for id, at in sorted(last_used.items()) if canonical.clean(id) == id]
    if rows:
        later = sa.bindparam("at") > registered_models.c.last_used_at
        statement = registered_models.update().where(registered_models.c.id == sa.bindparam("model"), later)
        tx.connection.execute(statement.values(last_used_at=sa.bindparam("at")), rows)


def insert_model(tx: Transaction, id: str, info: ModelInfo, auto_delete: bool, last_used_at: int) -> RegisteredModel:
    """Register a model that is not there; the caller holds the lock."""
    model = RegisteredModel(id, info, auto_delete, _next_generation(tx), last_used_at, tx.now)
    content = model.content()
    tx.insert(registered_models, id=id, last_used_at=last_used_at, created_at=tx.now, **content)
    tx.emit(ModelRegistered(id, content))
    return model


def used_since(tx: Transaction, model: RegisteredModel, at: int) -> RegisteredModel:
    """The model with its last use not before `at`."""
    if at <= model.last_used_at:
        return model
    tx.update(registered_models, {"id": model.id}, last_used_at=at)
    return replace(model, last_used_at=at)


def release_model(tx: Transaction, id: str, vmodel: str) -> bool:
    """`vmodel` does not refer to the model any more: delete it if it is to go with its last reference, and this was."""
    model = find_registered_model(tx.connection, id)
    if model is None or not model.auto_delete or _is_referred_to(tx.connection, id):
        return False
    _erase(tx, model)
    tx.emit(ModelAutoDeleted(id, model.content(), vmodel))
    return True


def _erase(tx: Transaction, model: RegisteredModel) -> None:
    tx.delete(load_failures, model=model.id)
    tx.delete(registered_models, id=model.id)


def _next_generation(tx: Transaction) -> int:
    statement = meta.update().values(last_generation=meta.c.last_generation + 1).returning(meta.c.last_generation)
    return int(tx.connection.execute(statement).scalar_one())


def _is_referred_to(connection: Connection, id: str) -> bool:
    refers = sa.or_(vmodels.c.active == id, vmodels.c.target == id)
    return connection.execute(sa.select(vmodels.c.id).where(refers).limit(1)).first() is not None


_FAILURE = [load_failures.c[item.name].label(f"failure_{item.name}") for item in fields(LoadFailureRecord)]
_WITH_FAILURES = (
    sa.select(registered_models, *_FAILURE)
    .join_from(registered_models, load_failures, isouter=True)
    .order_by(registered_models.c.id, load_failures.c.at.desc(), load_failures.c.instance)
)


def _read(connection: Connection, condition: sa.ColumnElement[bool]) -> tuple[RegisteredModel, ...]:
    rows = connection.execute(_WITH_FAILURES.where(condition)).mappings()
    found = (_model(list(group)) for _, group in groupby(rows, key=lambda row: str(row["id"])))
    return tuple(sorted(found, key=lambda model: model.id))


def _model(rows: list[RowMapping]) -> RegisteredModel:
    values: dict[str, Any] = {name: rows[0][name] for name in _OWN}
    info = ModelInfo(rows[0]["type"], rows[0]["path"], rows[0]["key"])
    failed = (row for row in rows if row["failure_instance"] is not None)
    return RegisteredModel(info=info, failures=tuple(_failure(row) for row in failed), **values)


_OWN = ("id", "auto_delete", "generation", "last_used_at", "created_at")


def _failure(row: RowMapping) -> LoadFailureRecord:
    return LoadFailureRecord(**{item.name: row[f"failure_{item.name}"] for item in fields(LoadFailureRecord)})
