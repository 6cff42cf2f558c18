"""Which copies of one instance are asked whether their runners live."""

from __future__ import annotations

from collections.abc import Collection

PER_ROUND = 8


class Pings:
    """Copies that a request met trouble on come first, all others in turn."""

    def __init__(self) -> None:
        self._suspects: set[str] = set()
        self._turn: list[str] = []

    def suspect(self, name: str) -> None:
        self._suspects.add(name)

    def clear(self, name: str) -> None:
        """What was known against this copy is over."""
        self._suspects.discard(name)

    def next(self, loaded: Collection[str]) -> list[str]:
        """The copies to ask in this round."""
        suspects = sorted(self._suspects.intersection(loaded))
        self._suspects.clear()
        if suspects:
            return suspects
        if not self._turn:
            self._turn = sorted(loaded)
        round_, self._turn = self._turn[:PER_ROUND], self._turn[PER_ROUND:]
        return [name for name in round_ if name in loaded]
