"""Models and vmodels of another ModelMesh, taken over in one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.errors import AlreadyExists
from bridge.registry.database import MODELMESH_LOCK
from bridge.registry.modelmesh_events import VModelCreated
from bridge.registry.names import check_name
from bridge.registry.records import ModelInfo, VModel
from bridge.registry.registered_models import assumed_last_use, find_registered_model, insert_model
from bridge.registry.tables import vmodels as vmodels_table
from bridge.registry.transaction import Transaction
from bridge.registry.vmodel_rules import check_info
from bridge.registry.vmodels import find_vmodel


@dataclass(frozen=True)
class ImportedModel:
    """A model to register; `last_used_at` in microseconds UTC, 0 where nobody knows."""

    id: str
    info: ModelInfo
    auto_delete: bool
    last_used_at: int


@dataclass(frozen=True)
class ImportedVModel:
    """A vmodel; in transition where active model and target differ."""

    id: str
    owner: str
    active: str
    target: str


@dataclass(frozen=True)
class ImportOutcome:
    """Ids of what is new, how many were there already, and the vmodels whose models are missing, by id."""

    models: tuple[str, ...]
    vmodels: tuple[str, ...]
    unchanged: int
    dangling: tuple[str, ...]


def import_all(tx: Transaction, models: Iterable[ImportedModel], vmodels: Iterable[ImportedVModel]) -> ImportOutcome:
    """Add what is not there. Raises AlreadyExists for an id that is there with other content, InvalidArgument.

    A vmodel whose models are missing is left out.
    """
    tx.lock(MODELMESH_LOCK)
    new_models: list[str] = []
    new_vmodels: list[str] = []
    dangling: list[str] = []
    unchanged = 0
    for model in models:
        if _add_model(tx, model):
            new_models.append(model.id)
        else:
            unchanged += 1
    for vmodel in vmodels:
        if any(find_registered_model(tx.connection, id) is None for id in (vmodel.active, vmodel.target)):
            dangling.append(vmodel.id)
        elif _add_vmodel(tx, vmodel):
            new_vmodels.append(vmodel.id)
        else:
            unchanged += 1
    return ImportOutcome(tuple(new_models), tuple(new_vmodels), unchanged, tuple(dangling))


def _add_model(tx: Transaction, model: ImportedModel) -> bool:
    check_name("model id", model.id)
    check_info(model.id, model.info)
    known = find_registered_model(tx.connection, model.id)
    if known is None:
        last_used_at = assumed_last_use(tx.now, load_now=False, given=model.last_used_at)
        insert_model(tx, model.id, model.info, model.auto_delete, last_used_at)
        return True
    if known.info != model.info:
        raise AlreadyExists(f"Model {model.id} already exists with different attribute values")
    return False


def _add_vmodel(tx: Transaction, vmodel: ImportedVModel) -> bool:
    check_name("vmodel id", vmodel.id)
    known = find_vmodel(tx.connection, vmodel.id)
    if known is None:
        new = VModel(vmodel.id, vmodel.owner, vmodel.active, vmodel.target, False, tx.now, tx.now)
        tx.insert(
            vmodels_table,
            id=new.id,
            owner=new.owner,
            active=new.active,
            target=new.target,
            target_failed=False,
            created_at=tx.now,
            updated_at=tx.now,
        )
        tx.emit(VModelCreated(new.id, None, new.content()))
        return True
    if (known.owner, known.active, known.target) != (vmodel.owner, vmodel.active, vmodel.target):
        raise AlreadyExists(f"vmodel {vmodel.id} already exists with other models or another owner")
    return False
