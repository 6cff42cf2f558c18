"""Changes of registered models and vmodels: first in the registry, then in the mirrors of this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bridge.modelmesh.catalog import ModelCatalog
from bridge.modelmesh.vmodels import VModels
from bridge.placement.model import Copy, CopyState
from bridge.placement.placement import Placement
from bridge.registry.records import (
    Actor,
    DeleteOutcome,
    ModelInfo,
    PromoteOutcome,
    RegisteredModel,
    SetVModel,
    SetVModelOutcome,
    VModel,
)
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

TRANSITIONS = Actor("bridge", "transitions")


class Counts(NamedTuple):
    """Copies of one model: all of them, and those that are loaded."""

    copies: int
    loaded: int


class CopyCounts:
    """The CopiesView of one moment, which the registry's thread may read."""

    def __init__(self, counts: Mapping[str, Counts]) -> None:
        self._counts = counts

    def copies(self, model_id: str) -> int:
        return self._counts[model_id].copies if model_id in self._counts else 0

    def loaded(self, model_id: str) -> int:
        return self._counts[model_id].loaded if model_id in self._counts else 0


def copy_counts(placement: Placement, models: set[str]) -> CopyCounts:
    """How many copies of `models` there are now."""
    return CopyCounts({model: _counts(placement.copies(model)) for model in models})


def _counts(copies: tuple[Copy, ...]) -> Counts:
    states = Counter(copy.state for copy in copies)
    return Counts(states[CopyState.LOADED] + states[CopyState.LOADING], states[CopyState.LOADED])


class Ledger:
    """The only writer. Changes of vmodels are made one after the other, so that each sees what the last one left.

    `registered` and `removed` are told ids of models that came or left. Raises what the registry raises.
    """

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        catalog: ModelCatalog,
        vmodels: VModels,
        placement: Placement,
        *,
        registered: Callable[[str], None],
        removed: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._thread = thread
        self._catalog = catalog
        self._vmodels = vmodels
        self._placement = placement
        self._registered = registered
        self._removed = removed
        self._lock = asyncio.Lock()

    async def read(self) -> None:
        """Make the mirrors what the registry says."""
        models = await self._thread.call(self._registry.registered_models)
        vmodels = await self._thread.call(self._registry.vmodels)
        for model in models:
            self._put(model)
        for vmodel in vmodels:
            self._vmodels.put(vmodel)

    async def refresh(self) -> None:
        """Make the mirrors what the registry says now, where another bridge changed it."""
        async with self._lock:
            models, vmodels = await self._thread.call(self._read)
            for model in models:
                self._put(model)
            for vmodel in vmodels:
                self._vmodels.put(vmodel)
            for id in {vmodel.id for vmodel in self._vmodels} - {vmodel.id for vmodel in vmodels}:
                self._vmodels.drop(id)
            for id in set(self._catalog.ids()) - {model.id for model in models}:
                self._drop(id)

    def _read(self) -> tuple[tuple[RegisteredModel, ...], tuple[VModel, ...]]:
        return self._registry.registered_models(), self._registry.vmodels()

    async def register(self, id: str, info: ModelInfo, last_used_at: int, actor: Actor) -> tuple[RegisteredModel, bool]:
        """The model, and whether this call created it; `last_used_at` is in microseconds UTC."""
        model, created = await self._thread.call(self._registry.register_model, id, info, False, last_used_at, actor)
        self._put(model)
        return model, created

    async def unregister(self, id: str, actor: Actor) -> None:
        if await self._thread.call(self._registry.unregister_model, id, actor) is not None:
            self._drop(id)

    async def set_vmodel(self, request: SetVModel, actor: Actor) -> SetVModelOutcome:
        async with self._lock:
            known = self._vmodels.get(request.id)
            concerned = {request.target, *((known.active, known.target) if known else ())}
            view = copy_counts(self._placement, concerned)
            outcome, target = await self._thread.call(self._set, request, view, actor)
            if target is not None:
                self._put(target)
            self._vmodels.put(outcome.vmodel)
            self._drop_all(outcome.deleted)
            return outcome

    async def promote(self, vmodel: VModel) -> PromoteOutcome:
        """End the transition that `vmodel` is in, if it still is in that one."""
        async with self._lock:
            outcome = await self._thread.call(
                self._registry.promote_vmodel, vmodel.id, vmodel.active, vmodel.target, TRANSITIONS
            )
            self._keep(vmodel.id, outcome.vmodel)
            self._drop_all(outcome.deleted)
            return outcome

    async def fail(self, vmodel: VModel, failed: bool, cause: str = "") -> None:
        """The target of the transition that `vmodel` is in is known to fail, or not any more."""
        async with self._lock:
            await self._thread.call(
                self._registry.fail_vmodel, vmodel.id, vmodel.target, failed, TRANSITIONS, cause=cause
            )
            self._keep(vmodel.id, await self._thread.call(self._registry.vmodel, vmodel.id))

    async def delete_vmodel(self, id: str, owner: str, actor: Actor) -> DeleteOutcome:
        async with self._lock:
            outcome = await self._thread.call(self._registry.delete_vmodel, id, owner, actor)
            if outcome.vmodel is not None:
                self._vmodels.drop(id)
            self._drop_all(outcome.deleted)
            return outcome

    def _set(
        self, request: SetVModel, view: CopyCounts, actor: Actor
    ) -> tuple[SetVModelOutcome, RegisteredModel | None]:
        outcome = self._registry.set_vmodel(request, view, actor)
        return outcome, self._registry.registered_model(request.target) if outcome.changed else None

    def _keep(self, id: str, vmodel: VModel | None) -> None:
        if vmodel is None:
            self._vmodels.drop(id)
        else:
            self._vmodels.put(vmodel)

    def _put(self, model: RegisteredModel) -> None:
        if self._catalog.put(model):
            self._registered(model.id)

    def _drop_all(self, models: tuple[str, ...]) -> None:
        for model in models:
            self._drop(model)

    def _drop(self, id: str) -> None:
        self._catalog.drop(id)
        self._removed(id)
