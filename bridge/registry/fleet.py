"""Triton instances and the copies of servables that they hold."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.errors import NotFound
from bridge.registry import canonical
from bridge.registry.events import (
    CopyLoaded,
    CopyLost,
    InstanceBack,
    InstanceLost,
    InstanceObserved,
    InstanceRegistered,
    InstanceUnwatched,
    InstanceUp,
)
from bridge.registry.names import check_name
from bridge.registry.records import Copy, Instance, InstanceState
from bridge.registry.tables import copies, instances
from bridge.registry.transaction import Transaction
from bridge.serving.routes import VersionState

PROCESS_ENDED = "the process that watched it ended"


def read_instances(connection: Connection) -> tuple[Instance, ...]:
    rows = connection.execute(sa.select(instances)).mappings()
    found = (Instance(**{**row, "state": InstanceState(row["state"])}) for row in rows)
    return tuple(sorted(found, key=lambda instance: instance.name))


def read_copies(connection: Connection) -> tuple[Copy, ...]:
    found = (Copy(**row) for row in connection.execute(sa.select(copies)).mappings())
    return tuple(sorted(found, key=lambda copy: (copy.instance, copy.triton_name)))


def upsert_instance(tx: Transaction, name: str, grpc: str, http: str, owner: str) -> bool:
    """Register the instance or change its addresses or owner."""
    check_name("instance name", name)
    addresses = {"grpc": grpc, "http": http, "owner": owner}
    row = tx.get(instances, name=name)
    previous = {key: row[key] for key in addresses} if row is not None else None
    if previous == addresses:
        return False
    if row is None:
        state = InstanceState.UNKNOWN.value
        tx.insert(instances, name=name, **addresses, state=state, reason="", created_at=tx.now, updated_at=tx.now)
    else:
        tx.update(instances, {"name": name}, **addresses, updated_at=tx.now)
    tx.emit(InstanceRegistered(name, previous, addresses))
    return True


def record_instance_state(tx: Transaction, name: str, state: InstanceState, reason: str) -> bool:
    """Keep what was observed; another reason for the same state is no change. Raises NotFound."""
    previous = InstanceState(_locked_instance(tx, name)["state"])
    if previous == state:
        return False
    tx.update(instances, {"name": name}, state=state.value, reason=reason, updated_at=tx.now)
    tx.emit(_transition(previous, state)(name, previous.value, state.value, canonical.clean(reason)))
    return True


def record_copy(
    tx: Transaction, triton_name: str, model: str, version: int, instance: str, state: int, size: int = 0
) -> bool:
    """Keep the state of a copy; a size of 0 means: as known before. Raises NotFound for an unknown instance."""
    _locked_instance(tx, instance)
    row = tx.get(copies, instance=instance, triton_name=triton_name)
    loaded = CopyLoaded(model, version, instance, triton_name, size or (row["size"] if row else 0))
    values = {"model": model, "version": version, "state": int(state), "size": loaded.size}
    if row is not None and all(row[name] == value for name, value in values.items()):
        return False
    key = {"instance": instance, "triton_name": triton_name}
    if row is None:
        tx.insert(copies, **key, **values, last_used_at=0, updated_at=tx.now)
    else:
        tx.update(copies, key, **values, updated_at=tx.now)
    if row is not None and row["state"] == VersionState.AVAILABLE != state:
        tx.emit(_lost(row, VersionState(state).name))
    if state == VersionState.AVAILABLE and (row is None or row["state"] != state):
        tx.emit(loaded)
    return True


def remove_copy(tx: Transaction, triton_name: str, instance: str, cause: str) -> bool:
    """The instance does not hold the servable any more; False if the registry knew of none."""
    row = tx.get(copies, instance=instance, triton_name=triton_name)
    if row is None:
        return False
    tx.delete(copies, instance=instance, triton_name=triton_name)
    if row["state"] == VersionState.AVAILABLE:
        tx.emit(_lost(row, cause))
    return True


def forget_fleet(tx: Transaction, forgotten: Callable[[str], bool] = lambda owner: True) -> None:
    """No copy is known to live any more and no instance whose owner is `forgotten`: what watched them ended."""
    names = {row["name"] for row in tx.find(instances) if forgotten(row["owner"])}
    for name in sorted(names):
        record_instance_state(tx, name, InstanceState.UNKNOWN, PROCESS_ENDED)
    for row in tx.find(copies):
        if row["instance"] in names:
            remove_copy(tx, row["triton_name"], row["instance"], PROCESS_ENDED)


def _locked_instance(tx: Transaction, name: str) -> RowMapping:
    row = tx.get(instances, name=name)
    if row is None:
        raise NotFound(f"Instance '{canonical.cut(name)}' is not registered.")
    return row


def _transition(previous: InstanceState, state: InstanceState) -> type[InstanceObserved]:
    if state is InstanceState.UP:
        return InstanceBack if previous is InstanceState.LOST else InstanceUp
    return InstanceLost if state is InstanceState.LOST else InstanceUnwatched


def _lost(row: RowMapping, cause: str) -> CopyLost:
    return CopyLost(
        row["model"], row["version"], row["instance"], row["triton_name"], row["size"], canonical.clean(cause)
    )
