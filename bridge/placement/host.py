"""One instance as placement keeps it."""

from __future__ import annotations

from bridge.placement.cache import Entry, EntryState, InstanceCache
from bridge.placement.ports import CacheInstance
from bridge.placement.queue import LoadQueue
from bridge.placement.settings import PlacementSettings


class Host:
    """An instance with its cache and its queue of loads."""

    def __init__(self, instance: CacheInstance, settings: PlacementSettings) -> None:
        self.instance = instance
        self.cache = InstanceCache(instance, settings.default_size, settings.load_concurrency)
        self.queue = LoadQueue()
        self.loading: set[Entry] = set()
        self.draining = False
        self._settings = settings

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def open(self) -> bool:
        """Whether it takes copies."""
        return self.instance.up and not self.draining

    def loaded(self, model_id: str) -> Entry | None:
        """The copy of a model that serves."""
        entry = self.cache.entries.get(model_id)
        return entry if entry is not None and entry.state is EntryState.LOADED else None

    def put(self, entry: Entry) -> None:
        """Give a copy its place and its turn."""
        self.cache.entries[entry.model.id] = entry
        self.queue.add(entry)

    def take(self, entry: Entry) -> None:
        """Take a copy's place away."""
        if self.cache.entries.get(entry.model.id) is entry:
            del self.cache.entries[entry.model.id]
        self.queue.discard(entry)

    def next(self) -> Entry | None:
        """The load whose turn it is, if there is a free slot. One waits while its own predecessor is being unloaded."""
        if len(self.loading) >= self._settings.load_concurrency:
            return None
        return self.queue.first(lambda entry: not self.cache.is_leaving(entry.model))

    def forget(self) -> list[Entry]:
        """The instance was lost with everything on it; what it held, copies in work included."""
        held = [*self.cache.entries.values(), *self.loading, *self.cache.leaving]
        for entry in held:
            entry.gone = True
            self.queue.discard(entry)
        self.cache.entries.clear()
        self.cache.leaving.clear()
        self.cache.pinned.clear()
        self.loading.clear()
        return held
