"""What an operator may ask and change of vmodels, once for the admin API and for commands that open the database."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.errors import NotFound
from bridge.modelmesh.ledger import CopyCounts
from bridge.modelmesh.manager import ModelMeshManager, VModelState
from bridge.registry.records import Actor, SetVModel, VModel
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


class VModelOperations:
    """Reads and changes vmodels; with a manager a change takes effect at once.

    Without one (no server lives, or one without ModelMesh) changes wait in the registry, and no model is loaded.
    Raises BridgeError.
    """

    def __init__(self, registry: Registry, thread: RegistryThread, manager: ModelMeshManager | None = None) -> None:
        self._registry = registry
        self._thread = thread
        self._manager = manager

    async def vmodels(self, id: str | None = None) -> list[VModelView]:
        """All vmodels by id, or the one called `id`. Raises NotFound."""
        if id is None:
            return [self._view(vmodel) for vmodel in await self._thread.call(self._registry.vmodels)]
        vmodel = await self._thread.call(self._registry.vmodel, id)
        if vmodel is None:
            raise NotFound(f"vmodel {id} not found")
        return [self._view(vmodel)]

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
