"""What placement needs of its surroundings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from bridge.errors import BridgeError, Code
from bridge.placement.model import Failure, Loadable


class CacheInstance(Protocol):
    """An instance that holds copies of models."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> frozenset[str]:
        """What type constraints are matched with."""

    @property
    def capacity(self) -> int:
        """Bytes for models; read each time, so it may change."""

    @property
    def up(self) -> bool: ...

    async def load(self, model: Loadable) -> int:
        """Load a copy and return its size in bytes, 0 when it is not known yet. Ends within a deadline of its own.

        Raises PlacementLoadError. An `unload` follows each failed load, since a load may outlive its call.
        """
        ...

    async def unload(self, model: Loadable) -> None:
        """Return once the memory is free again. Raises BridgeError; NOT_FOUND counts as success."""

    async def model_size(self, model: Loadable) -> int:
        """Bytes of a loaded copy, 0 where that cannot be told. Raises BridgeError."""
        ...


class Catalog(Protocol):
    """The registered models and their failed loads. Answers at once, from memory."""

    def get(self, model_id: str) -> Loadable | None:
        """The current registration."""

    def ids(self) -> Iterable[str]:
        """Every registered model, the most recently used first."""
        ...

    def last_used(self, model_id: str) -> int:
        """When it was used as far as the registration knows, milliseconds UTC; 0 for an unknown model."""
        ...

    def failures(self, model_id: str) -> Sequence[Failure]:
        """Recorded failed loads, expired ones included, at most one for each instance."""
        ...

    def failed(self, model_id: str, instance: str, code: Code, message: str) -> None:
        """Record a failed load; it takes the place of an earlier one on this instance."""

    def forget(self, model_id: str, instances: Sequence[str]) -> None:
        """Drop the failures on these instances: they expired, or a load there succeeded."""


class Router(Protocol):
    """Who sends requests to copies."""

    def changed(self, model_id: str) -> None:
        """The loaded copies of a model are others now. Returns at once."""

    async def drained(self, model: Loadable, instance: str) -> None:
        """Return once no request in flight may use this copy, which `changed` has withdrawn before."""


class PlacementObserver(Protocol):
    """Who hears what placement does: metrics, logs, events. Every call returns at once."""

    def load_started(self, model: Loadable, instance: str, queued_ms: int) -> None:
        """A load began after waiting `queued_ms` for its turn and for room."""

    def load_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        """A load succeeded or failed."""

    def sized(self, model: Loadable, instance: str, size: int, took_ms: int) -> None:
        """A copy turned out to take `size` bytes; asking for that took `took_ms`, 0 where the load told it."""

    def evicted(self, model: Loadable, instance: str, age_ms: int) -> None:
        """A copy, last used `age_ms` ago, makes room for others."""

    def unload_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        """An unload succeeded or failed; a failed one is tried again."""
