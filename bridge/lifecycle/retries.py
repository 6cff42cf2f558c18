"""When something that failed for one name may be tried again."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from bridge.lifecycle.backoff import Backoff


class Retries:
    """Pauses by name, each growing while its name fails."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before: dict[str, float] = {}
        self._backoffs: defaultdict[str, Backoff] = defaultdict(Backoff)

    def due(self, name: str) -> bool:
        """Whether a try may begin now."""
        return self._not_before.get(name, 0.0) <= self._clock()

    def failed(self, name: str) -> None:
        """A try failed: the next one waits longer than the last."""
        self._not_before[name] = self._clock() + self._backoffs[name].pause()

    def succeeded(self, name: str) -> None:
        """Nothing is known against this name any more."""
        self._not_before.pop(name, None)
        self._backoffs.pop(name, None)

    def all_due(self) -> None:
        """Circumstances changed: everything may be tried at once, with its next pause as long as before."""
        self._not_before.clear()
