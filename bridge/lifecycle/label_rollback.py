"""Rollbacks of labels: each means again the version that it meant, if that serves."""

from __future__ import annotations

from functools import partial

from bridge.errors import NotFound
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.earlier import EarlierLabel, before_last_setting, earlier_label
from bridge.lifecycle.model_rollback import Follow
from bridge.lifecycle.rollback_plan import Prepared, RollbackPlan, difference
from bridge.registry.events import label_subject
from bridge.registry.records import Actor, Model
from bridge.registry.registry import Registry
from bridge.registry.rollback_records import LabelRollback
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState


class LabelRollbacks:
    """The name of a label is MODEL/LABEL; neither holds what would make that ambiguous to the history."""

    def __init__(self, registry: Registry, thread: RegistryThread, plane: ControlPlane, follow: Follow) -> None:
        self._registry = registry
        self._thread = thread
        self._plane = plane
        self._follow = follow

    async def last_change(self, name: str) -> int:
        return await self._thread.call(before_last_setting, self._registry, f"label:{name}")

    async def prepare(self, name: str, seq: int) -> Prepared:
        models = await self._thread.call(self._registry.models, True)
        model, label = _parts(name, {item.name for item in models})
        earlier = await self._thread.call(earlier_label, self._registry, model, label, seq)
        present = await self._present(model)
        now = present.labels.get(label) if present is not None else None
        changes = difference("version", now, earlier.version)
        refusal = await self._refusal(model, present, label, earlier) if changes else ""
        plan = RollbackPlan(label_subject(model, label), earlier.seq, earlier.at, changes, refusal=refusal)
        wanted = LabelRollback(model, label, earlier.version, now, plan.reference)
        return Prepared(plan, partial(self._run, wanted))

    async def _run(self, wanted: LabelRollback, actor: Actor) -> None:
        await self._thread.call(self._registry.roll_back_label, wanted, actor)
        await self._follow()

    async def _present(self, name: str) -> Model | None:
        try:
            return await self._thread.call(self._registry.model, name)
        except NotFound:
            return None

    async def _refusal(self, model: str, present: Model | None, label: str, earlier: EarlierLabel) -> str:
        if present is None:
            return f"Label '{label}' cannot be put back: model '{model}' is not configured any more."
        if earlier.version is None:
            return ""
        status = self._plane.statuses(model).get(earlier.version)
        if status is None or status.state is not VersionState.AVAILABLE:
            return (
                f"Label '{label}' cannot be put back: version {earlier.version} of model '{model}', which it meant, "
                f"does not serve; a rollback of model:{model} brings versions back."
            )
        return await self._other_content(model, label, earlier)

    async def _other_content(self, model: str, label: str, earlier: EarlierLabel) -> str:
        versions = await self._thread.call(self._registry.versions, model)
        now = next((item.fingerprint for item in versions if item.version == earlier.version), "")
        if earlier.fingerprint in ("", now):
            return ""
        return (
            f"Label '{label}' cannot be put back: version {earlier.version} of model '{model}' serves other content "
            "now than it did then."
        )


def _parts(name: str, models: set[str]) -> tuple[str, str]:
    """Model and label of MODEL/LABEL; both may hold slashes, so the longest model that there was decides."""
    splits = [(name[:at], name[at + 1 :]) for at, character in enumerate(name) if character == "/"]
    return next((split for split in reversed(splits) if split[0] in models), splits[0] if splits else (name, ""))
