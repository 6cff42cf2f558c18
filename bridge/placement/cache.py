"""The cache of one instance: which copies it holds, how large they are, which of them make room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bridge.placement.capacity import Capacity
from bridge.placement.model import Copy, CopyState, Loadable
from bridge.placement.ports import CacheInstance


class EntryState(Enum):
    """How far a copy is."""

    QUEUED = "queued"
    """It has its place, but no memory yet."""
    LOADING = "loading"
    LOADED = "loaded"


@dataclass(eq=False)
class Entry:
    """A copy on an instance. Times are milliseconds UTC, `size` is in bytes: predicted, once loaded measured."""

    model: Loadable
    instance: str
    size: int
    last_used: int
    priority: int
    since: int
    urgent: bool = False
    """A request waits for it."""
    state: EntryState = EntryState.QUEUED
    safe_until: int = 0
    """Until then it stays even if others need room."""
    unwanted: bool = False
    """It was taken away while it was loading."""
    gone: bool = False
    """Its instance was lost: nothing that still happens to it counts."""

    def move(self, state: EntryState, now: int) -> None:
        self.state, self.since = state, now

    def copy(self) -> Copy:
        state = CopyState.LOADED if self.state is EntryState.LOADED else CopyState.LOADING
        return Copy(self.instance, state, self.since, self.size)

    def evictable(self, now: int) -> bool:
        if self.state is EntryState.LOADED:
            return self.safe_until <= now
        return self.state is EntryState.QUEUED and not self.urgent


@dataclass(frozen=True)
class Room:
    """Whether a size fits: at once, after `victims` left, or perhaps `later`, when copies that load are done."""

    victims: tuple[Entry, ...] = ()
    later: bool = False
    fits: bool = True


class InstanceCache:
    """Copies by model, least recently used ones first to go. Pinned bytes never go."""

    def __init__(self, instance: CacheInstance, default_size: int, threads: int) -> None:
        self.instance = instance
        self.entries: dict[str, Entry] = {}
        self.leaving: set[Entry] = set()
        self.pinned: dict[str, int] = {}
        self._default_size = default_size
        self._threads = threads

    @property
    def capacity(self) -> Capacity:
        return Capacity(self.instance.capacity, self._default_size, self._threads)

    @property
    def usable(self) -> int:
        """Bytes that models can have if all of them are evicted."""
        return self.capacity.effective - sum(self.pinned.values())

    @property
    def placed(self) -> int:
        """Bytes of the copies that have their place, also of those that wait."""
        return sum(entry.size for entry in self.entries.values())

    @property
    def free(self) -> int:
        """Bytes that can still be placed; negative after a size turned out larger than predicted."""
        return self.usable - self.placed

    @property
    def memory(self) -> int:
        """Bytes that are in use: loading, loaded, not yet unloaded, pinned."""
        present = sum(entry.size for entry in self.entries.values() if entry.state is not EntryState.QUEUED)
        return present + sum(entry.size for entry in self.leaving) + sum(self.pinned.values())

    def is_full(self, size: int) -> bool:
        """Whether a model of `size` bytes would need others to leave, or nearly so."""
        return self.free < max(size, self.capacity.full_below)

    def has_memory_for(self, size: int) -> bool:
        return self.memory + size <= self.capacity.total

    def is_leaving(self, model: Loadable) -> bool:
        """Whether this very registration is being unloaded here."""
        return any(entry.model.key == model.key for entry in self.leaving)

    def least_recently_used(self) -> int | None:
        """When the copy that has not been used for longest was used; None without copies."""
        return min((entry.last_used for entry in self.entries.values()), default=None)

    def by_age(self) -> Iterator[Entry]:
        """The copies, the least recently used first."""
        return iter(sorted(self.entries.values(), key=lambda entry: entry.last_used))

    def room(self, size: int, newer_than: int | None, now: int) -> Room:
        """How `size` bytes find room if only copies last used before `newer_than`, or any with None, may go."""
        missing = size - self.free
        victims: list[Entry] = []
        later = False
        for entry in self.by_age():
            if missing <= 0:
                break
            if newer_than is not None and entry.last_used >= newer_than:
                break
            if entry.evictable(now):
                victims.append(entry)
                missing -= entry.size
            else:
                later = True
        if missing > 0:
            return Room(later=later, fits=False)
        return Room(tuple(victims))

    def overdue(self, keep: Entry | None, now: int) -> tuple[Entry, ...]:
        """The copies that have to go since more is placed than there is room for."""
        excess = -self.free
        victims: list[Entry] = []
        for entry in self.by_age():
            if excess <= 0:
                break
            if entry is not keep and entry.evictable(now):
                victims.append(entry)
                excess -= entry.size
        return tuple(victims)
