"""Rollbacks of vmodels: the target is set back as setVModel does it, so that requests move when it is ready."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial

from bridge.errors import FailedPrecondition
from bridge.lifecycle.contents import Contents
from bridge.lifecycle.earlier import before_transaction
from bridge.lifecycle.rollback_plan import Prepared, RollbackPlan, difference
from bridge.modelmesh.manager import ModelMeshManager, VModelState
from bridge.registry.events import model_subject
from bridge.registry.history_records import HistoryQuery
from bridge.registry.modelmesh_events import vmodel_subject
from bridge.registry.records import Actor, EventRecord, JsonObject, ModelInfo, RegisteredModel, SetVModel, VModel
from bridge.registry.registry import Registry
from bridge.registry.rollback_events import RolledBack
from bridge.registry.thread import RegistryThread

_EVENTS = 1000
"""How many changes of a vmodel are looked through for another model."""


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What a vmodel meant just after the event `seq`, at `at`: a registered model, and how that was registered."""

    seq: int
    at: int
    model: str
    content: JsonObject | None


class VModelRollbacks:
    """Without a manager (ModelMesh is off) rollbacks are refused."""

    def __init__(
        self, registry: Registry, thread: RegistryThread, manager: ModelMeshManager | None, contents: Contents
    ) -> None:
        self._registry = registry
        self._thread = thread
        self._manager = manager
        self._contents = contents

    async def last_change(self, name: str) -> int:
        return await self._thread.call(_before_last_change, self._registry, name)

    async def prepare(self, name: str, seq: int) -> Prepared:
        earlier = await self._thread.call(_earlier, self._registry, name, seq)
        now = await self._thread.call(self._registry.vmodel, name)
        registered = await self._thread.call(self._registry.registered_model, earlier.model)
        changes = (
            *difference("active", now.active if now else None, earlier.model),
            *difference("target", now.target if now else None, earlier.model),
        )
        refusal = self._refusal(earlier, registered) if changes else ""
        refusal = refusal or (await self._other_files(earlier) if registered is None else "")
        plan = RollbackPlan(vmodel_subject(name), earlier.seq, earlier.at, changes, refusal=refusal)
        info = None if registered is not None else _info(earlier.content)
        auto_delete = bool((earlier.content or {}).get("auto_delete"))
        request = SetVModel(name, earlier.model, info=info, auto_delete=auto_delete, load_now=True)
        return Prepared(plan, partial(self._run, plan, request, now))

    async def _run(self, plan: RollbackPlan, request: SetVModel, before: VModel | None, actor: Actor) -> None:
        assert self._manager is not None
        status = await self._manager.set_vmodel(request, actor, sync=True)
        if status.state is not VModelState.DEFINED or status.active != request.target:
            await self._undo(request, before, actor)
            reasons = status.target_status.errors if status.target_status else ()
            reason = reasons[0] if reasons else "it did not become ready"
            raise FailedPrecondition(f"VModel '{request.id}' stays as it is: model '{request.target}': {reason}")
        after: JsonObject = {"active": request.target, "target": request.target}
        content = before.content() if before is not None else None
        await self._thread.call(self._registry.append, RolledBack(plan.subject, plan.reference, content, after), actor)

    async def _undo(self, request: SetVModel, before: VModel | None, actor: Actor) -> None:
        assert self._manager is not None
        if before is None:
            await self._manager.delete_vmodel(request.id, "", actor)
        else:
            back = SetVModel(request.id, before.target, update_only=True, expected_target=request.target)
            await self._manager.set_vmodel(back, actor, sync=False)

    def _refusal(self, earlier: _Earlier, registered: RegisteredModel | None) -> str:
        cannot = f"Model '{earlier.model}', which the vmodel meant, cannot be put back:"
        if self._manager is None:
            return f"{cannot} ModelMesh is off in this server."
        info = _info(earlier.content)
        if registered is None and info is None:
            return f"{cannot} it is not registered any more, and the history does not tell how it was."
        if registered is not None and info is not None and asdict(registered.info) != asdict(info):
            return f"{cannot} it is registered with other content now."
        return ""

    async def _other_files(self, earlier: _Earlier) -> str:
        """Why a model that has to be registered again is not what it was. Files in other storages are not looked at."""
        content = earlier.content or {}
        known = await self._thread.call(self._registry.provenance, earlier.model, content.get("generation", 0))
        if not known or content.get("key"):
            return ""
        cannot = f"Model '{earlier.model}', which the vmodel meant, cannot be put back:"
        try:
            found = await self._contents.read(known[0].path)
        except OSError:
            return f"{cannot} its files at {known[0].path} are gone."
        if found.sha256 == known[0].fingerprint:
            return ""
        return f"{cannot} the files at {known[0].path} were changed."


def _before_last_change(registry: Registry, name: str) -> int:
    """The event before the vmodel began to mean another model. Raises FailedPrecondition where it never did."""
    now = registry.vmodel(name)
    for event in registry.history(HistoryQuery(subject=vmodel_subject(name), limit=_EVENTS)):
        if _meant_another(event, now):
            return before_transaction(registry, event.seq)
    raise FailedPrecondition(f"The history knows no earlier state of vmodel:{name} to go back to.")


def _meant_another(event: EventRecord, now: VModel | None) -> bool:
    """Whether the vmodel meant another model before the event than it does or is to do now."""
    if event.action == RolledBack.action or "active" not in (event.before or {}):
        return False
    return now is None or bool(event.before["active"] != now.target)


def _earlier(registry: Registry, name: str, seq: int) -> _Earlier:
    """Raises FailedPrecondition where the vmodel was not there, OUT_OF_RANGE for no such event."""
    found = registry.state_at_seq(seq, vmodel_subject(name))
    state = found.subjects[0] if found.subjects else None
    live = state.live.state if state and state.live else None
    wanted = state.wanted.state if state and state.wanted else None
    if live is None and wanted is None:
        raise FailedPrecondition(f"VModel '{name}' was not there at event #{seq}, so there is nothing to go back to.")
    model = str(live["model"] if live is not None else (wanted or {})["active"])
    return _Earlier(found.seq, found.at, model, _registered(registry, model, seq))


def _registered(registry: Registry, model: str, seq: int) -> JsonObject | None:
    """How a model was registered at that event, None where the history does not tell."""
    found = registry.state_at_seq(seq, model_subject(model))
    state = found.subjects[0] if found.subjects else None
    content = state.wanted.state if state and state.wanted else None
    return content if content is not None and "type" in content else None


def _info(content: JsonObject | None) -> ModelInfo | None:
    return None if content is None else ModelInfo(content["type"], content["path"], content["key"])
