"""Loads that Triton does not finish.

Triton up to 25.08 waits for ever for a stub that dies before it is up, and a load thread is lost with each. The call
that asked for the load ends after its deadline; another one for the same model would only wait behind the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from bridge.errors import Code
from bridge.triton.instance import FailureKind, IndexEntry, LoadFailure

LOADING = "LOADING"
DEAD_SECONDS = 15.0
"""A stub is a process within a fraction of a second; this long without one means that it died."""
LOOKS = 3
"""How often in a row a load is seen without a stub before it counts as lost."""


class StuckLoads:
    """The loads of one instance. `has_runner` tells whether a process serves a model, None where nobody can tell."""

    def __init__(self, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._instance = instance
        self._clock = clock
        self._began: dict[str, float] = {}
        self._given_up: dict[str, float] = {}
        self._orphaned: dict[str, int] = {}

    @contextmanager
    def loading(self, name: str) -> Iterator[None]:
        """A load in flight; one that ends by its deadline is given up."""
        began = self._began[name] = self._clock()
        try:
            yield
        except LoadFailure as failure:
            if failure.code is Code.DEADLINE_EXCEEDED:
                self._given_up[name] = began
            raise
        else:
            self._given_up.pop(name, None)
        finally:
            del self._began[name]
            self._orphaned.pop(name, None)

    def refuse(self, name: str) -> None:
        """Raises LoadFailure while Triton is still at a load of this model that was given up."""
        if name in self._given_up:
            sentence = f"Triton {self._instance} has not ended an earlier load of {name} yet"
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, sentence)

    def forget(self) -> None:
        """Another server took the instance's place."""
        self._given_up.clear()
        self._orphaned.clear()

    def look(self, index: Mapping[str, IndexEntry], has_runner: Callable[[str], bool]) -> list[str]:
        """Models whose load will never end, since their stub is dead."""
        for name in list(self._given_up):
            if name not in index or index[name].state != LOADING:
                del self._given_up[name]
        old = [name for name, began in self._pending().items() if self._clock() - began >= DEAD_SECONDS]
        orphaned = [name for name in old if name in index and index[name].state == LOADING and not has_runner(name)]
        self._orphaned = {name: self._orphaned.get(name, 0) + 1 for name in orphaned}
        return [name for name, looks in self._orphaned.items() if looks >= LOOKS]

    def _pending(self) -> dict[str, float]:
        return {**self._given_up, **self._began}
