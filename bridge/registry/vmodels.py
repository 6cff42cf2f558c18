"""vmodels: created, moved from model to model, deleted, each by compare-and-set in one transaction."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.registry import canonical
from bridge.registry import vmodel_rules as rules
from bridge.registry.database import MODELMESH_LOCK
from bridge.registry.modelmesh_events import (
    VModelCreated,
    VModelDeleted,
    VModelEvent,
    VModelPromoted,
    VModelRolledBack,
    VModelTransitionFailed,
    VModelTransitionResumed,
    VModelTransitionStarted,
)
from bridge.registry.records import (
    DeleteOutcome,
    ModelInfo,
    PromoteOutcome,
    RegisteredModel,
    SetVModel,
    SetVModelOutcome,
    VModel,
)
from bridge.registry.registered_models import (
    assumed_last_use,
    find_registered_model,
    insert_model,
    release_model,
    used_since,
)
from bridge.registry.tables import registered_models, vmodels
from bridge.registry.transaction import Transaction
from bridge.registry.vmodel_rules import CopiesView, Move, Supply

NO_INFO = ModelInfo("")
_WITH_TARGET = (
    sa.select(vmodels, *(registered_models.c[name].label(f"target_{name}") for name in ("type", "path", "key")))
    .join_from(vmodels, registered_models, vmodels.c.target == registered_models.c.id)
    .where(vmodels.c.id == sa.bindparam("vmodel"), vmodels.c.target == sa.bindparam("target"))
)
MOVED: dict[Move, type[VModelEvent]] = {
    Move.ROLL_BACK: VModelRolledBack,
    Move.SWITCH: VModelPromoted,
    Move.BEGIN: VModelTransitionStarted,
}


def read_vmodels(connection: Connection) -> tuple[VModel, ...]:
    """All of them by id."""
    found = (VModel(**row) for row in connection.execute(sa.select(vmodels)).mappings())
    return tuple(sorted(found, key=lambda vmodel: vmodel.id))


def find_vmodel(connection: Connection, id: str) -> VModel | None:
    if canonical.clean(id) != id:
        return None
    row = connection.execute(sa.select(vmodels).where(vmodels.c.id == id)).mappings().one_or_none()
    return VModel(**row) if row is not None else None


def read_request(request: SetVModel) -> SetVModel:
    """`request` as the other functions take it. Raises InvalidArgument."""
    if request.info == NO_INFO:
        request = replace(request, info=None)
    rules.check_request(request)
    return request


def find_settled(connection: Connection, request: SetVModel, view: CopiesView) -> SetVModelOutcome | None:
    """The outcome of a request that has nothing to change, in one statement; None for any other.

    Controllers repeat their requests all the time: those neither wait for a lock nor hold one.
    """
    row = connection.execute(_WITH_TARGET, {"vmodel": request.id, "target": request.target}).mappings().one_or_none()
    if row is None:
        return None
    vmodel = VModel(**{item.name: row[item.name] for item in fields(VModel)})
    same = request.info in (None, ModelInfo(row["target_type"], row["target_path"], row["target_key"]))
    if not same or request.owner not in ("", vmodel.owner) or not rules.is_settled(vmodel, request):
        return None
    return SetVModelOutcome(vmodel, vmodel, changed=False, active_copies=view.copies(vmodel.active))


def set_vmodel(tx: Transaction, request: SetVModel, view: CopiesView) -> SetVModelOutcome:
    """Do what `request` asks, or nothing at all: raises what the checks of `vmodel_rules` raise."""
    tx.lock(MODELMESH_LOCK)
    vmodel = find_vmodel(tx.connection, request.id)
    rules.check_expectation(request, vmodel)
    target = find_registered_model(tx.connection, request.target)
    rules.check_target(request, target)
    rules.check_vmodel(request, vmodel)
    if vmodel is None:
        return _create(tx, request, target)
    return _change(tx, vmodel, request, target, view)


def promote_vmodel(tx: Transaction, id: str, active: str, target: str) -> PromoteOutcome:
    """End the transition from `active` to `target`; nothing happens if the vmodel is in another one or in none."""
    tx.lock(MODELMESH_LOCK)
    vmodel = find_vmodel(tx.connection, id)
    if vmodel is None or not vmodel.in_transition or (vmodel.active, vmodel.target) != (active, target):
        return PromoteOutcome(False, vmodel)
    promoted = _moved(tx, vmodel, active=target, target=target)
    return PromoteOutcome(True, promoted, _replace(tx, vmodel, promoted, VModelPromoted))


def fail_vmodel(tx: Transaction, id: str, target: str, failed: bool, cause: str = "") -> bool:
    """Keep whether the `target` of the transition is known to fail; False if that is no news or no such transition."""
    tx.lock(MODELMESH_LOCK)
    vmodel = find_vmodel(tx.connection, id)
    if vmodel is None or not vmodel.in_transition or vmodel.target != target or vmodel.target_failed == failed:
        return False
    changed = replace(vmodel, target_failed=failed, updated_at=tx.now)
    _write(tx, changed)
    contents = vmodel.content(), changed.content()
    if failed:
        tx.emit(VModelTransitionFailed(id, *contents, canonical.clean(cause)))
    else:
        tx.emit(VModelTransitionResumed(id, *contents))
    return True


def delete_vmodel(tx: Transaction, id: str, owner: str = "") -> DeleteOutcome:
    """Delete the vmodel unless it has another owner than a given one."""
    tx.lock(MODELMESH_LOCK)
    vmodel = find_vmodel(tx.connection, id)
    if vmodel is None or (owner and owner != vmodel.owner):
        return DeleteOutcome(None)
    tx.delete(vmodels, id=id)
    tx.emit(VModelDeleted(id, vmodel.content(), None))
    return DeleteOutcome(vmodel, _release(tx, id, {vmodel.active, vmodel.target}))


def _create(tx: Transaction, request: SetVModel, target: RegisteredModel | None) -> SetVModelOutcome:
    _provide(tx, request, target, assumed_last_use(tx.now, request.load_now))
    owner = request.owner or request.default_owner
    vmodel = VModel(request.id, owner, request.target, request.target, False, tx.now, tx.now)
    tx.insert(vmodels, **asdict(vmodel))
    tx.emit(VModelCreated(vmodel.id, None, vmodel.content()))
    return SetVModelOutcome(vmodel, None, changed=True, target_created=target is None)


def _change(
    tx: Transaction, vmodel: VModel, request: SetVModel, target: RegisteredModel | None, view: CopiesView
) -> SetVModelOutcome:
    supply = _supply(vmodel, target, view)
    move = rules.move(vmodel, request, supply)
    if move is Move.KEEP:
        return SetVModelOutcome(vmodel, vmodel, changed=False, active_copies=supply.active_copies)
    if move is not Move.ROLL_BACK:
        active = find_registered_model(tx.connection, vmodel.active)
        _provide(tx, request, target, active.last_used_at if active is not None else 0)
    serving = vmodel.active if move is Move.BEGIN else request.target
    moved = _moved(tx, vmodel, active=serving, target=request.target)
    deleted = _replace(tx, vmodel, moved, MOVED[move])
    return SetVModelOutcome(moved, vmodel, True, target is None, deleted, supply.active_copies)


def _supply(vmodel: VModel, target: RegisteredModel | None, view: CopiesView) -> Supply:
    """A target that is not registered has no copies, whatever is left of an earlier model of that id."""
    return Supply(
        active_copies=view.copies(vmodel.active),
        active_loaded=view.loaded(vmodel.active),
        target_loaded=view.loaded(target.id) if target is not None else 0,
        target_failed=target is not None and bool(target.failures),
    )


def _provide(tx: Transaction, request: SetVModel, target: RegisteredModel | None, last_used_at: int) -> None:
    """Have the target registered and as recently used as the model that it replaces."""
    if target is not None:
        used_since(tx, target, last_used_at)
    elif request.info is not None:
        insert_model(tx, request.target, request.info, request.auto_delete, last_used_at)


def _moved(tx: Transaction, vmodel: VModel, *, active: str, target: str) -> VModel:
    return replace(vmodel, active=active, target=target, target_failed=False, updated_at=tx.now)


def _replace(tx: Transaction, before: VModel, after: VModel, event: type[VModelEvent]) -> tuple[str, ...]:
    """Write the vmodel and let go of the models that it named before; those that were deleted."""
    _write(tx, after)
    tx.emit(event(after.id, before.content(), after.content()))
    return _release(tx, after.id, {before.active, before.target} - {after.active, after.target})


def _release(tx: Transaction, id: str, models: set[str]) -> tuple[str, ...]:
    return tuple(model for model in sorted(models) if release_model(tx, model, id))


def _write(tx: Transaction, vmodel: VModel) -> None:
    tx.update(
        vmodels,
        {"id": vmodel.id},
        active=vmodel.active,
        target=vmodel.target,
        target_failed=vmodel.target_failed,
        updated_at=vmodel.updated_at,
    )
