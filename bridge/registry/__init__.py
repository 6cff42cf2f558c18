"""SQL: the truth of what is wanted, and the history of everything that changed."""

from bridge.registry.records import (
    Actor,
    AppliedConfig,
    ConfigRevision,
    Copy,
    EventRecord,
    Instance,
    InstanceState,
    Lease,
    Model,
    ModelSpec,
    Owner,
    Problem,
    Version,
)
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

__all__ = [
    "Actor",
    "AppliedConfig",
    "ConfigRevision",
    "Copy",
    "EventRecord",
    "Instance",
    "InstanceState",
    "Lease",
    "Model",
    "ModelSpec",
    "Owner",
    "Problem",
    "Registry",
    "RegistryThread",
    "Version",
]
