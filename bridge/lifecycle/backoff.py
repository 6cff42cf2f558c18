"""Growing pauses between tries that fail for the platform's reasons."""

from __future__ import annotations


class Backoff:
    """Doubles from `first` to `most` seconds; `reset` starts over."""

    def __init__(self, first: float = 0.25, most: float = 10.0) -> None:
        self._first = first
        self._most = most
        self._next = first

    def pause(self) -> float:
        """Seconds to wait before the next try."""
        pause = self._next
        self._next = min(self._most, pause * 2)
        return pause

    def reset(self) -> None:
        self._next = self._first
