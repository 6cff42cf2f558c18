"""What an operator may ask and change, once for the admin API and for commands that open the database themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from bridge.errors import Code, FailedPrecondition, InvalidArgument
from bridge.lifecycle.configuration import label_refused
from bridge.lifecycle.history_operations import HistoryOperations
from bridge.registry.records import Actor, Copy, EventRecord, Instance, Model, Problem, Version
from bridge.registry.registry import Registry
from bridge.registry.rollback_records import Provenance
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState
from model_repo_sync.policy import from_json

if TYPE_CHECKING:
    from bridge.lifecycle.control_plane import ControlPlane
    from bridge.lifecycle.rollback import Rollback
    from bridge.lifecycle.rollback_plan import RollbackPlan

LARGEST_VERSION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model as it is wanted, with the versions that serve now and what is wrong with its source.

    `pinned` are the versions that a rollback holds it at, whatever the policy says; None for no rollback.
    """

    name: str
    owner: str
    base_path: str
    platform: str
    policy: Mapping[str, Any]
    labels: Mapping[str, int]
    available: tuple[int, ...]
    problems: tuple[str, ...]
    pinned: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version as it was observed last, at `updated_at` (microseconds UTC).

    `state` and `code` are the names of a ModelVersionStatus.State and a canonical code; `instances` hold a copy.
    """

    model: str
    version: int
    state: str
    code: str
    message: str
    path: str
    fingerprint: str
    instances: tuple[str, ...]
    updated_at: int


@dataclass(frozen=True, slots=True)
class ProvenanceView:
    """A content that a version had, and where it came from.

    `fingerprint` is the SHA-256 over all files (`model_repo_sync.content`), `found` that of what lies at `path` now
    where that is something else. `tensorflow` has the fields of TensorFlow's fingerprint.pb, empty where there is none;
    `signatures` are the names that can be called. `size` is in bytes, times are microseconds UTC.
    """

    model: str
    version: int
    fingerprint: str
    path: str
    size: int
    signatures: tuple[str, ...]
    tensorflow: Mapping[str, str]
    found: str | None
    first_seen_at: int
    last_seen_at: int


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

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        plane: ControlPlane | None = None,
        rollback: Rollback | None = None,
    ) -> None:
        self.history = HistoryOperations(registry)
        self._registry = registry
        self._thread = thread
        self._plane = plane
        self._rollback = rollback

    async def models(self, name: str | None = None) -> list[ModelView]:
        """All models by name, or the one called `name`. Raises NotFound."""
        records = await self._records(name)
        versions = await self._thread.call(self._registry.versions, name)
        problems = await self._thread.call(self._registry.problems)
        return [_model(record, versions, problems) for record in records]

    async def versions(self, model: str | None = None) -> list[VersionView]:
        """Observed versions by model, highest first. Raises NotFound for a model that never was."""
        versions = await self._thread.call(self._registry.versions, model)
        copies = await self._thread.call(self._registry.copies)
        if model is not None and not versions:
            await self._thread.call(self._registry.model, model)
        return [_version(item, copies) for item in versions]

    async def provenance(self, model: str, version: int | None = None) -> list[ProvenanceView]:
        """The contents that versions of a model had, by version, the one seen last first."""
        found = await self._thread.call(self._registry.provenance, model, version)
        return [_provenance(item) for item in found]

    async def labels(self, model: str | None = None) -> list[LabelView]:
        """Labels by model and name. Raises NotFound."""
        return [
            LabelView(record.name, label, version, self._is_assigned(record.name, label, version))
            for record in await self._records(model)
            for label, version in sorted(record.labels.items())
        ]

    async def instances(self) -> list[InstanceView]:
        """Triton instances by name."""
        records = await self._thread.call(self._registry.instances)
        copies = await self._thread.call(self._registry.copies)
        return [_instance(record, copies) for record in records]

    async def copy_sizes(self) -> dict[str, int]:
        """The bytes that copies take, by instance, as far as their sizes are known."""
        sizes: Counter[str] = Counter()
        for copy in await self._thread.call(self._registry.copies):
            sizes[copy.instance] += copy.size
        return dict(sizes)

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

        Raises NotFound for the model, InvalidArgument for a label or version that cannot be, and FailedPrecondition
        with TF Serving's sentence while the version does not serve. Without a control plane nobody knows what serves,
        so the label waits for its version.
        """
        if not 0 <= version <= LARGEST_VERSION:
            raise InvalidArgument(f"version {version} is not between 0 and {LARGEST_VERSION}")
        await self._thread.call(self._registry.model, model)
        if self._plane is not None and not self._serves(model, version):
            raise label_refused(model, version)
        return await self._after(await self._thread.call(self._registry.set_label, model, label, version, actor))

    async def remove_label(self, model: str, label: str, actor: Actor) -> bool:
        """Requests do not find the version by this label any more. Raises NotFound for the model or the label."""
        return await self._after(await self._thread.call(self._registry.remove_label, model, label, actor))

    async def unpin(self, model: str, actor: Actor) -> bool:
        """Let a model that a rollback holds follow its policy again; whether it was held. Raises NotFound."""
        return await self._after(await self._thread.call(self._registry.unpin, model, actor))

    async def rollback_plan(self, subject: str, to: str = "") -> RollbackPlan:
        """`Rollback.plan`. Raises FailedPrecondition where no server lives."""
        return await self._rollbacks().plan(subject, to)

    async def roll_back(self, subject: str, to: str, actor: Actor) -> RollbackPlan:
        """`Rollback.run`. Raises FailedPrecondition where no server lives."""
        return await self._rollbacks().run(subject, to, actor)

    def _rollbacks(self) -> Rollback:
        if self._rollback is None:
            raise FailedPrecondition("A rollback loads and checks before it moves anything, so a server has to run.")
        return self._rollback

    async def _records(self, name: str | None) -> tuple[Model, ...]:
        if name is None:
            return await self._thread.call(self._registry.models)
        return (await self._thread.call(self._registry.model, name),)

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


def _model(record: Model, versions: tuple[Version, ...], problems: tuple[Problem, ...]) -> ModelView:
    return ModelView(
        name=record.name,
        owner=str(record.owner),
        base_path=record.base_path,
        platform=record.platform,
        policy=record.policy,
        labels=record.labels,
        available=tuple(
            item.version for item in versions if item.model == record.name and item.state == VersionState.AVAILABLE
        ),
        problems=tuple(item.sentence for item in problems if item.subject == f"model:{record.name}"),
        pinned=record.pin.versions if record.pin is not None else None,
    )


def _version(item: Version, copies: tuple[Copy, ...]) -> VersionView:
    return VersionView(
        model=item.model,
        version=item.version,
        state=VersionState(item.state).name,
        code=Code(item.code).name,
        message=item.message,
        path=item.path,
        fingerprint=item.fingerprint,
        instances=tuple(copy.instance for copy in copies if (copy.model, copy.version) == (item.model, item.version)),
        updated_at=item.updated_at,
    )


def _provenance(item: Provenance) -> ProvenanceView:
    return ProvenanceView(**{field.name: getattr(item, field.name) for field in fields(ProvenanceView)})


def _instance(record: Instance, copies: tuple[Copy, ...]) -> InstanceView:
    return InstanceView(
        name=record.name,
        grpc=record.grpc,
        http=record.http,
        owner=record.owner,
        state=str(record.state),
        reason=record.reason,
        copies=tuple(sorted(copy.triton_name for copy in copies if copy.instance == record.name)),
    )
