"""What an operator may ask and change of ModelMesh, once for the admin API and for commands that open the database."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.errors import NotFound
from bridge.modelmesh.ledger import CopyCounts
from bridge.modelmesh.manager import ModelMeshManager, VModelState
from bridge.placement.model import CopyState
from bridge.registry.records import Actor, RegisteredModel, SetVModel, VModel
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread


@dataclass(frozen=True, slots=True)
class VModelView:
    """A vmodel; `state` is the name of a VModelState.

    `active_status` and `target_status` are names of model statuses, empty where no server knows them; `errors` are
    those of the target while it is in transition, else of the active model.
    """

    id: str
    owner: str
    state: str
    active: str
    target: str
    active_status: str
    target_status: str
    errors: tuple[str, ...]
    updated_at: int


@dataclass(frozen=True, slots=True)
class RegisteredModelView:
    """A registered model with the instances that have it loaded; times are microseconds UTC.

    `status` is the name of a model status, empty where no server knows it; `errors` are those of failed loads.
    """

    id: str
    type: str
    path: str
    key: str
    auto_delete: bool
    status: str
    instances: tuple[str, ...]
    errors: tuple[str, ...]
    last_used_at: int
    created_at: int


@dataclass(frozen=True, slots=True)
class InstanceRoom:
    """How full an instance is: bytes that models take, those that may be taken, and loads that are under way."""

    used: int
    capacity: int
    loading: int


class ModelMeshOperations:
    """Reads registered models and vmodels, changes vmodels; with a manager a change takes effect at once.

    Without one (no server lives, or one without ModelMesh) changes wait in the registry, and no model is loaded.
    Raises BridgeError.
    """

    def __init__(self, registry: Registry, thread: RegistryThread, manager: ModelMeshManager | None = None) -> None:
        self._registry = registry
        self._thread = thread
        self._manager = manager

    async def registered_models(self, id: str | None = None) -> list[RegisteredModelView]:
        """All registered models by id, or the one called `id`. Raises NotFound."""
        if id is None:
            return [self._model_view(model) for model in await self._thread.call(self._registry.registered_models)]
        model = await self._thread.call(self._registry.registered_model, id)
        if model is None:
            raise NotFound(f"model {id} not found")
        return [self._model_view(model)]

    async def vmodels(self, id: str | None = None) -> list[VModelView]:
        """All vmodels by id, or the one called `id`. Raises NotFound."""
        if id is None:
            return [self._view(vmodel) for vmodel in await self._thread.call(self._registry.vmodels)]
        vmodel = await self._thread.call(self._registry.vmodel, id)
        if vmodel is None:
            raise NotFound(f"vmodel {id} not found")
        return [self._view(vmodel)]

    def rooms(self) -> dict[str, InstanceRoom]:
        """How full each instance is, by name; empty where no placement keeps count."""
        found = self._manager.instances() if self._manager is not None else ()
        return {item.name: InstanceRoom(item.used + item.pinned, item.capacity, item.loading) for item in found}

    async def set_vmodel(self, request: SetVModel, actor: Actor, *, wait: bool = False) -> bool:
        """As setVModel; whether that changed anything. With `wait` return when the transition ended, well or not."""
        if self._manager is not None:
            return (await self._manager.set_vmodel(request, actor, sync=wait)).changed
        outcome = await self._thread.call(self._registry.set_vmodel, request, CopyCounts({}), actor)
        return outcome.changed

    async def delete_vmodel(self, id: str, actor: Actor) -> bool:
        """As deleteVModel; whether there was one."""
        if self._manager is not None:
            return await self._manager.delete_vmodel(id, "", actor)
        outcome = await self._thread.call(self._registry.delete_vmodel, id, "", actor)
        return outcome.vmodel is not None

    def _model_view(self, model: RegisteredModel) -> RegisteredModelView:
        status = self._manager.model_status(model.id) if self._manager else None
        failures = status.errors if status else tuple(failure.message for failure in model.failures)
        copies = status.copies if status else ()
        return RegisteredModelView(
            id=model.id,
            type=model.info.type,
            path=model.info.path,
            key=model.info.key,
            auto_delete=model.auto_delete,
            status=status.status.name if status else "",
            instances=tuple(copy.instance for copy in copies if copy.state is CopyState.LOADED),
            errors=failures,
            last_used_at=model.last_used_at,
            created_at=model.created_at,
        )

    def _view(self, vmodel: VModel) -> VModelView:
        status = self._manager.vmodel_status(vmodel.id, "") if self._manager else None
        concerned = (status.target_status or status.active_status) if status else None
        return VModelView(
            id=vmodel.id,
            owner=vmodel.owner,
            state=_state(vmodel).name,
            active=vmodel.active,
            target=vmodel.target,
            active_status=status.active_status.status.name if status and status.active_status else "",
            target_status=status.target_status.status.name if status and status.target_status else "",
            errors=concerned.errors if concerned else (),
            updated_at=vmodel.updated_at,
        )


def _state(vmodel: VModel) -> VModelState:
    if not vmodel.in_transition:
        return VModelState.DEFINED
    return VModelState.TRANSITION_FAILED if vmodel.target_failed else VModelState.TRANSITIONING
