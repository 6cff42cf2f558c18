"""The loads that wait for their turn on one instance."""

from __future__ import annotations

from collections.abc import Callable

from bridge.placement.cache import Entry


class LoadQueue:
    """Highest priority first, of equals the one that came first. Priorities may change while entries wait."""

    def __init__(self) -> None:
        self._entries: dict[Entry, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        self._entries[entry] = None

    def discard(self, entry: Entry) -> None:
        self._entries.pop(entry, None)

    def first(self, ready: Callable[[Entry], bool]) -> Entry | None:
        """The entry whose turn it is among those that are ready."""
        return max(filter(ready, self._entries), key=lambda entry: entry.priority, default=None)
