"""What the registry takes and gives: frozen records, never rows of its own tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridge.registry.rollback_records import Pin

JsonObject = Mapping[str, Any]


class Owner(StrEnum):
    """Who alone may replace a model's row."""

    CONFIG = "config"
    MODELMESH = "modelmesh"
    ADMIN = "admin"


class InstanceState(StrEnum):
    """What is known of a Triton instance; UNKNOWN while no live process watches it."""

    UNKNOWN = "unknown"
    UP = "up"
    LOST = "lost"


class Outcome(StrEnum):
    APPLIED = "applied"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change: `name` is a TLS subject, token name or peer, `source` the way it came (RPC, CLI, poller,
    reconcile, admin)."""

    name: str
    source: str
    reason: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as it is wanted. `policy` is the version policy and `logging` says which requests are logged, both as
    plain JSON; `labels` maps label to version."""

    name: str
    base_path: str
    platform: str = "tensorflow"
    policy: JsonObject = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    logging: JsonObject = field(default_factory=dict)

    def wanted(self) -> dict[str, Any]:
        """The content as events show it; no request logging is not worth a word."""
        content = {
            "base_path": self.base_path,
            "platform": self.platform,
            "policy": dict(self.policy),
            "labels": dict(self.labels),
        }
        return content | {"logging": dict(self.logging)} if self.logging else content


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the registry. `present` is false once it was removed; times are microseconds UTC.

    A `pin` holds it at versions, whatever its policy says.
    """

    name: str
    owner: Owner
    base_path: str
    platform: str
    policy: JsonObject
    labels: Mapping[str, int]
    present: bool
    created_at: int
    updated_at: int
    logging: JsonObject = field(default_factory=dict)
    pin: Pin | None = None

    def wanted(self) -> dict[str, Any]:
        """The content as events show it."""
        return ModelSpec(self.name, self.base_path, self.platform, self.policy, self.labels, self.logging).wanted()


@dataclass(frozen=True, slots=True)
class Version:
    """The last observed state of a version. `state` has the numbers of ModelVersionStatus.State, 0 where the process
    that observed it ended; `size` is in bytes."""

    model: str
    version: int
    state: int
    code: int
    message: str
    path: str
    fingerprint: str
    size: int
    first_seen_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Instance:
    """A Triton instance. `owner` is the bridge process that alone loads and unloads there."""

    name: str
    grpc: str
    http: str
    owner: str
    state: InstanceState
    reason: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A servable on an instance. `state` has the numbers of ModelVersionStatus.State, `size` is in bytes."""

    instance: str
    triton_name: str
    model: str
    version: int
    state: int
    size: int
    last_used_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a source now, since when (microseconds UTC)."""

    subject: str
    path: str
    sentence: str
    since: int


@dataclass(frozen=True, slots=True)
class ConfigRevision:
    """A configuration that was offered. `origin` says where it came from, `error` why it was rejected."""

    revision: int
    origin: str
    content_hash: str
    text: str
    outcome: Outcome
    error: str
    at: int
    current: bool


@dataclass(frozen=True, slots=True)
class AppliedConfig:
    """Whether a configuration was applied, else why not in one word: `unchanged` or `superseded`.

    `revision` is the new revision, or the last one of the same origin.
    """

    applied: bool
    reason: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One row of the history. `before` and `after` are JSON objects or None; `at` is microseconds UTC.

    `version` is the version of the subject's model that the event is about.
    """

    seq: int
    at: int
    actor: str
    source: str
    subject: str
    action: str
    before: Any
    after: Any
    reason: str
    request_id: str
    hash: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lease. `fence` grows with each change of holder; `expires_at` is on the database's clock."""

    name: str
    holder: str
    fence: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Replica:
    """A bridge on a shared database; `address` is HOST:PORT where the others reach it, `release` its version."""

    name: str
    address: str
    release: str


@dataclass(frozen=True, slots=True)
class RouterProgress:
    """A router holds no request that was routed by a snapshot older than `epoch`."""

    name: str
    epoch: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a replica sees each time it says that it lives. `now` is the database's clock.

    `leader_address` is empty while nobody leads; `epoch` is that of the newest published snapshot.
    """

    now: int
    lease: Lease | None
    leader_address: str
    epoch: int

    @property
    def led(self) -> bool:
        """Whether somebody leads now."""
        return self.lease is not None and self.lease.expires_at > self.now


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a runtime needs to find a registered model; empty is the same as absent. `key` is often JSON."""

    type: str
    path: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class LoadFailureRecord:
    """The last failed load of a registered model on an instance. `code` is canonical, `at` microseconds UTC."""

    instance: str
    code: int
    message: str
    at: int


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A model that a ModelMesh client registered.

    `auto_delete` says that it goes with its last vmodel. No `generation` is used twice in a database, so that a model
    registered anew is not taken for the earlier one. `failures` are newest first. Times are microseconds UTC.
    """

    id: str
    info: ModelInfo
    auto_delete: bool
    generation: int
    last_used_at: int
    created_at: int
    failures: tuple[LoadFailureRecord, ...] = ()

    def content(self) -> dict[str, Any]:
        """The content as events show it."""
        info = {"type": self.info.type, "path": self.info.path, "key": self.info.key}
        return info | {"auto_delete": self.auto_delete, "generation": self.generation}


@dataclass(frozen=True, slots=True)
class VModel:
    """A name that clients call, for the model `active`; a `target` that differs shall take over when it is ready.

    An empty `owner` is none. `target_failed` says that the target's last load failed.
    """

    id: str
    owner: str
    active: str
    target: str
    target_failed: bool
    created_at: int
    updated_at: int

    @property
    def in_transition(self) -> bool:
        return self.active != self.target

    def content(self) -> dict[str, Any]:
        """The content as events show it."""
        state = {"active": self.active, "target": self.target, "target_failed": self.target_failed}
        return {"owner": self.owner, **state} if self.owner else state


@dataclass(frozen=True, slots=True)
class SetVModel:
    """What setVModel asks: have the vmodel `id` mean the model `target`.

    With `info` the target is created if it is not there, with that `auto_delete`. `expected_target` is compared with
    the present target where it is not empty. A new vmodel gets `owner`, or else `default_owner`. `load_now` decides
    here only how recently a new target counts as used.
    """

    id: str
    target: str
    info: ModelInfo | None = None
    auto_delete: bool = False
    update_only: bool = False
    load_now: bool = False
    force: bool = False
    expected_target: str = ""
    owner: str = ""
    default_owner: str = ""


@dataclass(frozen=True, slots=True)
class SetVModelOutcome:
    """What setVModel found and left.

    `previous` is None for a vmodel that was created, `changed` false if nothing was written; `target_created` tells
    that the target was registered by this call, `deleted` which models went with their last reference. `active_copies`
    are the copies, loaded or loading, that the model active before had; 0 for a new vmodel.
    """

    vmodel: VModel
    previous: VModel | None
    changed: bool
    target_created: bool = False
    deleted: tuple[str, ...] = ()
    active_copies: int = 0

    @property
    def in_transition(self) -> bool:
        return self.vmodel.in_transition


@dataclass(frozen=True, slots=True)
class PromoteOutcome:
    """Whether the target became active. `vmodel` is the present state, None if there is no such vmodel; `deleted` are
    the models that went with their last reference."""

    promoted: bool
    vmodel: VModel | None
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """The vmodel that was deleted, None for none: absent, or of another owner. `deleted` are the models that went with
    their last reference."""

    vmodel: VModel | None
    deleted: tuple[str, ...] = ()
