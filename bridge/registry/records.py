"""What the registry takes and gives: frozen records, never rows of its own tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

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
    """A model of the registry. `present` is false once it was removed; times are microseconds UTC."""

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
    """One row of the history. `before` and `after` are JSON objects or None; `at` is microseconds UTC."""

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


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lease. `fence` grows with each change of holder; `expires_at` is on the database's clock."""

    name: str
    holder: str
    fence: int
    expires_at: int
