"""What ModelMesh clients may ask and change: models, vmodels, their statuses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from enum import IntEnum

from bridge.errors import InvalidArgument
from bridge.modelmesh.catalog import ModelCatalog
from bridge.modelmesh.ledger import Ledger
from bridge.modelmesh.vmodels import VModels
from bridge.placement.clock import Clock
from bridge.placement.errors import PlacementLoadError, model_not_found
from bridge.placement.model import ErrorKind, ModelStatus, Status
from bridge.placement.placement import InstanceView, Placement
from bridge.placement.wishes import Ticket
from bridge.registry.records import Actor, ModelInfo, SetVModel, SetVModelOutcome, VModel
from bridge.registry.registered_models import assumed_last_use


class VModelState(IntEnum):
    """State of a vmodel, by the numbers of mmesh's VModelStatus."""

    NOT_FOUND = 0
    DEFINED = 1
    TRANSITIONING = 2
    TRANSITION_FAILED = 3


@dataclass(frozen=True, slots=True)
class VModelStatus:
    """A vmodel with the statuses of its models; `target_status` is None unless it is in transition.

    `changed` tells whether the call that this answers changed it.
    """

    state: VModelState
    active: str = ""
    target: str = ""
    owner: str = ""
    active_status: ModelStatus | None = None
    target_status: ModelStatus | None = None
    changed: bool = False


NO_VMODEL = VModelStatus(VModelState.NOT_FOUND)


class ModelMeshManager:
    """The verbs of ModelMesh. Times are milliseconds UTC, 0 for none given. Raises BridgeError with its sentences.

    A load that fails is a status, never an error. Calls that wait do so until they are cancelled.
    """

    def __init__(
        self, ledger: Ledger, catalog: ModelCatalog, vmodels: VModels, placement: Placement, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._vmodels = vmodels
        self._placement = placement
        self._clock = clock

    def instances(self) -> tuple[InstanceView, ...]:
        """The instances that registered models are placed on."""
        return self._placement.instances()

    async def register_model(
        self, id: str, info: ModelInfo, actor: Actor, *, load_now: bool, sync: bool, last_used: int
    ) -> ModelStatus:
        """Register a model and, with `load_now`, load it; `sync` waits for that."""
        _require_id(id)
        at = self._assumed_last_use(load_now, last_used)
        _, created = await self._ledger.register(id, info, at * 1000, actor)
        if load_now:
            return await self._load(id, at, sync=sync)
        return ModelStatus(Status.NOT_LOADED) if created else self._placement.status(id)

    async def unregister_model(self, id: str, actor: Actor) -> None:
        """Unregister a model, if there is one."""
        _require_id(id)
        await self._ledger.unregister(id, actor)

    def model_status(self, id: str) -> ModelStatus:
        _require_id(id)
        return self._placement.status(id)

    async def ensure_loaded(self, id: str, *, last_used: int, sync: bool) -> ModelStatus:
        """Have a model loaded that counts as used at `last_used`, by default now. Raises NotFound."""
        _require_id(id)
        now = self._clock.now()
        return await self._load(id, min(last_used, now) if last_used > 0 else now, sync=sync)

    async def set_vmodel(self, request: SetVModel, actor: Actor, *, sync: bool) -> VModelStatus:
        """Have a vmodel mean a model; `sync` waits for the end of the transition, or for a load that was asked for."""
        outcome = await self._ledger.set_vmodel(request, actor)
        return replace(await self._answer(request, outcome, sync=sync), changed=outcome.changed)

    async def _answer(self, request: SetVModel, outcome: SetVModelOutcome, *, sync: bool) -> VModelStatus:
        if outcome.in_transition:
            if sync:
                await self._transition_ended(outcome.vmodel)
            return self._status(self._vmodels.get(request.id))
        copies = outcome.active_copies or int(request.load_now)
        if not copies:
            return self._status(outcome.vmodel)
        at = self._assumed_last_use(request.load_now)
        status = await self._load(outcome.vmodel.active, at, sync=sync, copies=copies)
        return replace(self._status(outcome.vmodel), active_status=status)

    async def delete_vmodel(self, id: str, owner: str, actor: Actor) -> bool:
        """Delete a vmodel, if there is one and `owner`, where it is given, is its owner; whether it was there."""
        return (await self._ledger.delete_vmodel(id, owner, actor)).vmodel is not None

    def vmodel_status(self, id: str, owner: str) -> VModelStatus:
        """A vmodel, unknown to anybody who names another owner."""
        vmodel = self._vmodels.get(id)
        return NO_VMODEL if vmodel is not None and owner and owner != vmodel.owner else self._status(vmodel)

    def _assumed_last_use(self, load_now: bool, given: int = 0) -> int:
        return assumed_last_use(self._clock.now() * 1000, load_now, given * 1000) // 1000

    async def _load(self, id: str, last_used: int, *, sync: bool, copies: int = 1) -> ModelStatus:
        ticket = self._placement.ensure_loaded(id, last_used, copies=copies)
        if sync:
            await _done(ticket)
        error = ticket.exception() if ticket.done() else None
        if isinstance(error, PlacementLoadError):
            return self._refused(id, error)
        return self._placement.status(id)

    def _refused(self, id: str, error: PlacementLoadError) -> ModelStatus:
        if error.kind is ErrorKind.UNKNOWN_MODEL:
            raise model_not_found() from error
        status = self._placement.status(id)
        if status.status is Status.LOADED:
            return status
        return replace(status, status=Status.LOADING_FAILED, errors=status.errors or (error.message,))

    async def _transition_ended(self, vmodel: VModel) -> None:
        """Return once the vmodel is promoted, failed, has another target, or is gone."""
        while (now := self._vmodels.get(vmodel.id)) is not None:
            if not now.in_transition or now.target_failed or now.target != vmodel.target:
                return
            await self._vmodels.changed()

    def _status(self, vmodel: VModel | None) -> VModelStatus:
        if vmodel is None:
            return NO_VMODEL
        active = self._placement.status(vmodel.active)
        if not vmodel.in_transition:
            return VModelStatus(VModelState.DEFINED, vmodel.active, vmodel.target, vmodel.owner, active)
        state = VModelState.TRANSITION_FAILED if vmodel.target_failed else VModelState.TRANSITIONING
        target = _target_status(self._placement.status(vmodel.target), vmodel.target_failed)
        return VModelStatus(state, vmodel.active, vmodel.target, vmodel.owner, active, target)


def _target_status(status: ModelStatus, failed: bool) -> ModelStatus:
    """A target is on its way from the moment that it is one, and failed only once its transition is said to have."""
    if status.status is Status.NOT_LOADED or (status.status is Status.LOADING_FAILED and not failed):
        return replace(status, status=Status.LOADING)
    return status


def _require_id(id: str) -> None:
    if not id:
        raise InvalidArgument("must provide non-empty modelId")


async def _done(ticket: Ticket) -> None:
    """Wait for what comes of a ticket; the load goes on if nobody waits any more."""
    try:
        await asyncio.wait((ticket,))
    finally:
        ticket.cancel()
