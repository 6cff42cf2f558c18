"""What an operator may ask and change, once for the admin API and for commands that open the database themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.errors import FailedPrecondition, InvalidArgument, NotFound
from bridge.lifecycle.control_plane import ControlPlane
from bridge.registry.records import Actor, EventRecord, Instance, Model, Version
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState
from model_repo_sync.policy import from_json


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model as it is wanted, with the versions that serve now and what is wrong with its source."""

    name: str
    owner: str
    base_path: str
    platform: str
    policy: Mapping[str, Any]
    labels: Mapping[str, int]
    available: tuple[int, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version as it was observed last. `state` is the name of a ModelVersionStatus.State."""

    model: str
    version: int
    state: str
    code: int
    message: str
    path: str
    fingerprint: str
    instances: tuple[str, ...]
    updated_at: int


@dataclass(frozen=True, slots=True)
class LabelView:
    """A label as it is wanted; `assigned` says whether requests reach its version by it now."""

    model: str
    label: str
    version: int
    assigned: bool


@dataclass(frozen=True, slots=True)
class InstanceView:
    """A Triton instance; `copies` are the Triton names that it holds."""

    name: str
    grpc: str
    http: str
    owner: str
    state: str
    reason: str
    copies: tuple[str, ...]


class Operations:
    """Reads and changes the registry; with a control plane a change takes effect at once.

    Without one (no server lives) changes wait in the registry for the next start. Raises BridgeError.
    """

    def __init__(self, registry: Registry, thread: RegistryThread, plane: ControlPlane | None = None) -> None:
        self._registry = registry
        self._thread = thread
        self._plane = plane

    async def models(self, name: str | None = None) -> list[ModelView]:
        """All models by name, or the one called `name`. Raises NotFound."""
        records = await self._thread.call(self._registry.models)
        versions = await self._thread.call(self._registry.versions)
        problems = await self._thread.call(self._registry.problems)
        views = []
        for record in records:
            if name is None or record.name == name:
                available = tuple(item.version for item in versions if item.model == record.name and _available(item))
                sentences = tuple(item.sentence for item in problems if item.subject == f"model:{record.name}")
                views.append(_model(record, available, sentences))
        if name is not None and not views:
            raise NotFound(f"no model {name} is configured")
        return views

    async def versions(self, model: str | None = None) -> list[VersionView]:
        """Observed versions by model, highest first. Raises NotFound for a model that never was."""
        versions = await self._thread.call(self._registry.versions, model)
        copies = await self._thread.call(self._registry.copies)
        if model is not None and not versions:
            await self._thread.call(self._registry.model, model)
        holders: dict[tuple[str, int], list[str]] = {}
        for copy in copies:
            holders.setdefault((copy.model, copy.version), []).append(copy.instance)
        return [_version(item, tuple(holders.get((item.model, item.version), ()))) for item in versions]

    async def labels(self, model: str | None = None) -> list[LabelView]:
        """Labels by model and name. Raises NotFound."""
        if model is None:
            records = await self._thread.call(self._registry.models)
        else:
            records = (await self._thread.call(self._registry.model, model),)
        return [
            LabelView(record.name, label, version, self._is_assigned(record.name, label, version))
            for record in records
            for label, version in sorted(record.labels.items())
        ]

    async def instances(self) -> list[InstanceView]:
        records = await self._thread.call(self._registry.instances)
        copies = await self._thread.call(self._registry.copies)
        held: dict[str, list[str]] = {}
        for copy in copies:
            held.setdefault(copy.instance, []).append(copy.triton_name)
        return [_instance(record, tuple(sorted(held.get(record.name, ())))) for record in records]

    async def events(
        self, subject: str | None = None, action: str | None = None, after: int = 0, limit: int = 100
    ) -> list[EventRecord]:
        """The newest events past sequence number `after`, newest first."""
        events = await self._thread.call(
            self._registry.events, subject, action, after=after, limit=limit, newest_first=True
        )
        return list(events)

    async def set_policy(self, model: str, policy: Mapping[str, Any], actor: Actor) -> bool:
        """Serve other versions; whether that changed anything. Raises NotFound, InvalidArgument."""
        try:
            wanted = from_json(policy).to_json()
        except ValueError as error:
            raise InvalidArgument(str(error)) from error
        return await self._after(await self._thread.call(self._registry.set_policy, model, wanted, actor))

    async def set_label(self, model: str, label: str, version: int, actor: Actor) -> bool:
        """Point a label at a version; whether that changed anything.

        Raises NotFound for the model, and FailedPrecondition with TF Serving's sentence while the version does not
        serve. Without a control plane nobody knows what serves, so the label waits for its version.
        """
        await self._thread.call(self._registry.model, model)
        if self._plane is not None and not self._serves(model, version):
            raise FailedPrecondition(
                f"Request to assign label to version {version} of model {model}, which is not currently available for "
                "inference"
            )
        return await self._after(await self._thread.call(self._registry.set_label, model, label, version, actor))

    async def remove_label(self, model: str, label: str, actor: Actor) -> bool:
        """Raises NotFound for the model or the label."""
        return await self._after(await self._thread.call(self._registry.remove_label, model, label, actor))

    async def _after(self, changed: bool) -> bool:
        if changed and self._plane is not None:
            self._plane.apply(await self._thread.call(self._registry.models))
        return changed

    def _serves(self, model: str, version: int) -> bool:
        status = self._plane.statuses(model).get(version) if self._plane else None
        return status is not None and status.state is VersionState.AVAILABLE

    def _is_assigned(self, model: str, label: str, version: int) -> bool:
        route = self._plane.publisher.routes.models.get(model) if self._plane else None
        return route is not None and route.labels.get(label) == version


def _available(version: Version) -> bool:
    return version.state == VersionState.AVAILABLE


def _model(record: Model, available: tuple[int, ...], problems: tuple[str, ...]) -> ModelView:
    return ModelView(
        record.name,
        str(record.owner),
        record.base_path,
        record.platform,
        record.policy,
        record.labels,
        available,
        problems,
    )


def _version(item: Version, instances: tuple[str, ...]) -> VersionView:
    state = VersionState(item.state).name
    return VersionView(
        item.model,
        item.version,
        state,
        item.code,
        item.message,
        item.path,
        item.fingerprint,
        instances,
        item.updated_at,
    )


def _instance(record: Instance, copies: tuple[str, ...]) -> InstanceView:
    return InstanceView(record.name, record.grpc, record.http, record.owner, str(record.state), record.reason, copies)
