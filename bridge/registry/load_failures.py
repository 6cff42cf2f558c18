"""Which instances could not load a registered model, until that is forgotten."""

from __future__ import annotations

from collections.abc import Collection

from bridge.registry import canonical
from bridge.registry.database import MODELMESH_LOCK
from bridge.registry.modelmesh_events import LoadFailed, LoadFailureForgotten
from bridge.registry.records import LoadFailureRecord, RegisteredModel
from bridge.registry.registered_models import find_registered_model
from bridge.registry.tables import load_failures
from bridge.registry.transaction import Transaction


def record_load_failure(
    tx: Transaction, id: str, instance: str, code: int, message: str, generation: int | None = None
) -> bool:
    """Keep what went wrong and when; the same error again is no event, but counts from now on.

    False if the model is not there any more, or is of another `generation` than the one that failed.
    """
    tx.lock(MODELMESH_LOCK)
    model = find_registered_model(tx.connection, id)
    if model is None or generation not in (None, model.generation):
        return False
    failure = LoadFailureRecord(instance, int(code), canonical.clean(message), tx.now)
    previous = _failure_on(model, instance)
    _write(tx, id, failure, new=previous is None)
    if previous is None or (previous.code, previous.message) != (failure.code, failure.message):
        tx.emit(LoadFailed(id, instance, failure.code, failure.message))
    return True


def forget_load_failures(tx: Transaction, id: str, instances: Collection[str]) -> bool:
    """Failures of the model on `instances` count no more; False if there were none."""
    tx.lock(MODELMESH_LOCK)
    model = find_registered_model(tx.connection, id)
    forgotten = [failure for failure in model.failures if failure.instance in instances] if model is not None else []
    for failure in forgotten:
        tx.delete(load_failures, model=id, instance=failure.instance)
        tx.emit(LoadFailureForgotten(id, failure.instance, failure.code, failure.message))
    return bool(forgotten)


def _failure_on(model: RegisteredModel, instance: str) -> LoadFailureRecord | None:
    return next((failure for failure in model.failures if failure.instance == instance), None)


def _write(tx: Transaction, id: str, failure: LoadFailureRecord, *, new: bool) -> None:
    values = {"code": failure.code, "message": failure.message, "at": failure.at}
    if new:
        tx.insert(load_failures, model=id, instance=failure.instance, **values)
    else:
        tx.update(load_failures, {"model": id, "instance": failure.instance}, **values)
