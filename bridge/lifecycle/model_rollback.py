"""Rollbacks of models: the versions that served then are loaded from their contents of then, checked, and held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from bridge.errors import BridgeError, Code, FailedPrecondition, NotFound
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.earlier import before_last_change, earlier_model
from bridge.lifecycle.rollback_contents import RollbackContents
from bridge.lifecycle.rollback_plan import ContentCheck, Prepared, RollbackPlan, difference
from bridge.registry.events import model_subject
from bridge.registry.history_records import Change
from bridge.registry.records import Actor, JsonObject, Model, ModelSpec, Owner
from bridge.registry.registry import Registry
from bridge.registry.rollback_records import ModelRollback, PinnedContent
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState

LOOK_SECONDS = 0.25
"""A failed try to load is no news of the control plane, so it is looked for."""

Follow = Callable[[], Awaitable[None]]
"""Has the control plane do what the registry wants."""


class ModelRollbacks:
    """A rollback loads beside what serves, for at most `patience` seconds, for ever with None; then requests move."""

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        plane: ControlPlane,
        contents: RollbackContents,
        follow: Follow,
        patience: float | None,
    ) -> None:
        self._registry = registry
        self._thread = thread
        self._plane = plane
        self._contents = contents
        self._follow = follow
        self._patience = patience

    async def last_change(self, name: str) -> int:
        return await self._thread.call(before_last_change, self._registry, model_subject(name))

    async def prepare(self, name: str, seq: int) -> Prepared:
        earlier = await self._thread.call(earlier_model, self._registry, name, seq)
        model = await self._present(name)
        serving = await self._serving(name)
        checks = tuple([await self._contents.check(name, content) for content in earlier.contents])
        spec = earlier.spec if model is None else _spec(model, earlier.spec)
        changes = (
            *difference("versions", serving, [item.version for item in earlier.contents]),
            *_changes(model, spec),
            *difference("pin", _pinned(model), _described(earlier.contents)),
        )
        refusal = next((item.problem for item in checks if item.problem), "") or await self._conflict(name, checks)
        plan = RollbackPlan(model_subject(name), earlier.seq, earlier.at, changes, checks, refusal)
        wanted = ModelRollback(
            spec=spec,
            owner=model.owner if model is not None else Owner.CONFIG,
            contents=earlier.contents,
            expected=model.wanted() if model is not None else None,
            reference=plan.reference,
            before={change.path: change.before for change in changes},
            after={change.path: change.after for change in changes},
        )
        return Prepared(plan, partial(self._run, wanted, checks))

    async def _run(self, wanted: ModelRollback, checks: tuple[ContentCheck, ...], actor: Actor) -> None:
        name = wanted.spec.name
        await self._contents.bring(name, checks)
        try:
            await self._load(name, wanted.contents)
            await asyncio.shield(asyncio.ensure_future(self._move(wanted, actor)))
        finally:
            self._plane.rehearse(name, ())
            await self._contents.let_go(name)

    async def _load(self, name: str, contents: tuple[PinnedContent, ...]) -> None:
        """Return once every version is ready to serve. Raises BridgeError."""
        self._plane.rehearse(name, contents)
        try:
            async with asyncio.timeout(self._patience):
                while not self._is_ready(name, contents):
                    await self._news()
        except TimeoutError as error:
            versions = ", ".join(str(item.version) for item in contents)
            sentence = f"Model '{name}' stays as it is: version {versions} did not load within {self._patience:g} s."
            raise BridgeError(sentence, Code.DEADLINE_EXCEEDED) from error

    def _is_ready(self, name: str, contents: tuple[PinnedContent, ...]) -> bool:
        status = self._plane.rehearsal(name)
        if status is not None and status.state is VersionState.AVAILABLE:
            return True
        for item in contents:
            error = self._plane.load_error(name, item.version)
            if error is not None:
                raise _does_not_load(name, item.version, error.message)
        if status is not None:
            raise _does_not_load(name, status.version, status.message)
        return False

    async def _news(self) -> None:
        progress = self._plane.progress()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await progress.wait()
        except TimeoutError:
            pass

    async def _move(self, wanted: ModelRollback, actor: Actor) -> None:
        await self._thread.call(self._registry.roll_back_model, wanted, actor)
        await self._follow()

    async def _present(self, name: str) -> Model | None:
        try:
            return await self._thread.call(self._registry.model, name)
        except NotFound:
            return None

    async def _serving(self, name: str) -> list[int]:
        live = (await self._thread.call(self._registry.live)).get(model_subject(name))
        return sorted(live["versions"]) if live is not None and "versions" in live else []

    async def _conflict(self, name: str, checks: tuple[ContentCheck, ...]) -> str:
        """Why a version cannot be put back whose number serves already."""
        for version in await self._thread.call(self._registry.versions, name):
            for check in checks:
                serves = version.version == check.version and version.state == VersionState.AVAILABLE
                if serves and version.fingerprint not in ("", check.fingerprint):
                    return (
                        f"Version {version.version} of model '{name}' cannot be put back: it serves other content now, "
                        "and one number cannot serve both."
                    )
        return ""


def _spec(model: Model, earlier: ModelSpec) -> ModelSpec:
    """The model as it is, with the policy and the labels that it had."""
    return ModelSpec(model.name, model.base_path, model.platform, earlier.policy, earlier.labels, model.logging)


def _changes(model: Model | None, spec: ModelSpec) -> tuple[Change, ...]:
    if model is None:
        return (Change("model", None, spec.wanted()),)
    return (*difference("policy", dict(model.policy), dict(spec.policy)), *_label_changes(model, spec))


def _label_changes(model: Model, spec: ModelSpec) -> Iterator[Change]:
    for label in sorted(model.labels.keys() | spec.labels.keys()):
        yield from difference(f"labels.{label}", model.labels.get(label), spec.labels.get(label))


def _pinned(model: Model | None) -> list[JsonObject] | None:
    return _described(model.pin.contents) if model is not None and model.pin is not None else None


def _described(contents: tuple[PinnedContent, ...]) -> list[JsonObject]:
    return [{"version": item.version, "fingerprint": item.fingerprint} for item in contents]


def _does_not_load(name: str, version: int, message: str) -> FailedPrecondition:
    return FailedPrecondition(f"Model '{name}' stays as it is: version {version} does not load: {message}")
