"""Carries the times of last use from placement to the registry, many at a time."""

from __future__ import annotations

from bridge.lifecycle.recorder import Recorder
from bridge.modelmesh.catalog import ModelCatalog
from bridge.placement.clock import Clock
from bridge.placement.placement import Placement
from bridge.registry.registry import Registry

INTERVAL_MS = 30_000


class LastUses:
    """Writes what changed since it was written last."""

    def __init__(
        self, registry: Registry, recorder: Recorder, catalog: ModelCatalog, placement: Placement, clock: Clock
    ) -> None:
        self._registry = registry
        self._recorder = recorder
        self._catalog = catalog
        self._placement = placement
        self._clock = clock

    async def run(self) -> None:
        """Write now and then, until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL_MS)
            self.write()

    def write(self) -> None:
        """Have the new times written."""
        times = {id: self._placement.last_used(id) for id in self._catalog.ids()}
        later = {id: at for id, at in times.items() if at > self._catalog.last_used(id)}
        if later:
            self._catalog.used_at(later)
            self._recorder.record(self._registry.touch_registered, {id: at * 1000 for id, at in later.items()})
