"""The inference legs of a router: one per Triton instance, opened on first use, closed when the instance leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bridge.serving.routes import InstanceRoute, Routes
from bridge.triton.calls import InferenceLeg

OpenLeg = Callable[[InstanceRoute], InferenceLeg]


class LegUse:
    """A leg with the number of calls that use it. Each of them enters it as a context."""

    def __init__(self, instance: InstanceRoute, leg: InferenceLeg, close: Callable[[LegUse], None]) -> None:
        self.instance = instance
        self.leg = leg
        self.in_flight = 0
        self.retired = False
        self._close = close

    def __enter__(self) -> InferenceLeg:
        self.in_flight += 1
        return self.leg

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.in_flight -= 1
        if self.retired and not self.in_flight:
            self._close(self)


class LegPool:
    """Legs by instance. An instance whose address changed gets a new leg; the old one finishes its calls first."""

    def __init__(self, open_leg: OpenLeg) -> None:
        self._open_leg = open_leg
        self._entries: dict[str, LegUse] = {}
        self._turn = 0
        self._closing: set[asyncio.Task[None]] = set()

    def least_busy(self, instances: Sequence[str]) -> str:
        """The instance with the fewest calls in flight; equally busy ones take turns."""
        if len(instances) == 1:
            return instances[0]
        self._turn += 1
        start = self._turn % len(instances)
        return min((*instances[start:], *instances[:start]), key=self._load)

    def use(self, instance: InstanceRoute) -> LegUse:
        """The leg of `instance`, to be entered for one call."""
        entry = self._entries.get(instance.name)
        if entry is None or entry.instance is not instance:
            entry = self._renewed(instance, entry)
        return entry

    def observe(self, routes: Routes) -> None:
        """Retire the legs of instances that are no longer in the snapshot."""
        for name in self._entries.keys() - routes.instances.keys():
            self._retire(self._entries.pop(name))

    async def close(self) -> None:
        """Close every leg, whatever is in flight."""
        legs = [entry.leg for entry in self._entries.values()]
        self._entries.clear()
        await asyncio.gather(*self._closing, *(leg.close() for leg in legs))

    def _load(self, name: str) -> int:
        entry = self._entries.get(name)
        return entry.in_flight if entry else 0

    def _renewed(self, instance: InstanceRoute, entry: LegUse | None) -> LegUse:
        if entry is not None and entry.instance == instance:
            entry.instance = instance
            return entry
        if entry is not None:
            self._retire(entry)
        entry = self._entries[instance.name] = LegUse(instance, self._open_leg(instance), self._close)
        return entry

    def _retire(self, entry: LegUse) -> None:
        entry.retired = True
        if not entry.in_flight:
            self._close(entry)

    def _close(self, entry: LegUse) -> None:
        task = asyncio.get_running_loop().create_task(entry.leg.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
