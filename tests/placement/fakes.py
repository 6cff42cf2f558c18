"""A clock that tests move, and fake surroundings of placement. No Triton is involved: instances only count bytes."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random

from bridge.errors import BridgeError, Code
from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import ErrorKind, Failure, Loadable
from bridge.placement.placement import Placement
from bridge.placement.settings import PlacementSettings

MIB = 1 << 20
START_MS = 1_700_000_000_000
SETTLE_STEPS = 15
"""Turns of the event loop in which everything that is due at one moment has run."""


async def settle() -> None:
    for _ in range(SETTLE_STEPS):
        await asyncio.sleep(0)


class FakeClock:
    """Stands still until `advance`."""

    def __init__(self) -> None:
        self._now = START_MS
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now(self) -> int:
        return self._now

    async def sleep(self, milliseconds: int) -> None:
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + milliseconds, next(self._order), waker))
        await waker

    async def advance(self, milliseconds: int) -> None:
        """Let time pass, and everybody act when it is their time."""
        end = self._now + milliseconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._now = max(self._now, self._sleepers[0][0])
            while self._sleepers and self._sleepers[0][0] <= self._now:
                waker = heapq.heappop(self._sleepers)[2]
                if not waker.done():
                    waker.set_result(None)
            await settle()
        self._now = end
        await settle()


class FakeInstance:
    """Holds models of given sizes. It notes what no real instance could do: load a copy twice, exceed its memory."""

    def __init__(
        self,
        clock: FakeClock,
        name: str = "a",
        capacity: int = 1024 * MIB,
        labels: Iterable[str] = (),
        *,
        load_ms: int = 20,
        unload_ms: int = 0,
    ) -> None:
        self.name = name
        self.capacity = capacity
        self.labels = frozenset(labels)
        self.up = True
        self.load_ms = load_ms
        self.unload_ms = unload_ms
        self.sizes: dict[tuple[str, int], int] = {}
        self.tells_size = True
        self.failing: dict[str, PlacementLoadError] = {}
        self.unload_errors: list[BridgeError] = []
        self.present: dict[tuple[str, int], int] = {}
        self.loads: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.most_bytes = 0
        self.faults: list[str] = []
        self._clock = clock
        self._crashes = 0

    def actual_size(self, model: Loadable) -> int:
        return self.sizes.get(model.key, model.predicted_size)

    @property
    def bytes(self) -> int:
        return sum(self.present.values())

    async def load(self, model: Loadable) -> int:
        if model.key in self.present:
            self.faults.append(f"{model.id} is on {self.name} already")
        self.loads.append(model.id)
        self.present[model.key] = self.actual_size(model)
        self.most_bytes = max(self.most_bytes, self.bytes)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        crashes = self._crashes
        await self._clock.sleep(self.load_ms)
        if crashes == self._crashes:
            self.in_flight -= 1
        else:
            raise PlacementLoadError(Code.UNAVAILABLE, f"{self.name} is down", ErrorKind.PLATFORM)
        if model.id in self.failing:
            raise self.failing[model.id]
        return self.actual_size(model) if self.tells_size else 0

    async def unload(self, model: Loadable) -> None:
        crashes = self._crashes
        await self._clock.sleep(self.unload_ms)
        if self.unload_errors:
            raise self.unload_errors.pop(0)
        if crashes == self._crashes:
            self.present.pop(model.key, None)

    async def model_size(self, model: Loadable) -> int:
        await self._clock.sleep(1)
        return self.actual_size(model)

    def crash(self) -> None:
        self.up = False
        self.in_flight = 0
        self.present.clear()
        self._crashes += 1


class FakeCatalog:
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._generations = itertools.count(1)
        self.models: dict[str, Loadable] = {}
        self.failed_loads: defaultdict[str, dict[str, Failure]] = defaultdict(dict)

    def register(self, model_id: str, size: int = 50 * MIB, model_type: str = "tensorflow") -> Loadable:
        model = Loadable(model_id, next(self._generations), model_type, size)
        self.models[model_id] = model
        return model

    def get(self, model_id: str) -> Loadable | None:
        return self.models.get(model_id)

    def ids(self) -> Iterable[str]:
        return tuple(self.models)

    def last_used(self, model_id: str) -> int:
        return 0

    def failures(self, model_id: str) -> Sequence[Failure]:
        return tuple(self.failed_loads[model_id].values())

    def failed(self, model_id: str, instance: str, code: Code, message: str) -> None:
        self.failed_loads[model_id][instance] = Failure(instance, code, message, self._clock.now())

    def forget(self, model_id: str, instances: Sequence[str]) -> None:
        for instance in instances:
            self.failed_loads[model_id].pop(instance, None)


class FakeRouter:
    """Requests in flight by (model, instance) hold up unloads."""

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.busy: dict[tuple[str, str], asyncio.Event] = {}

    def changed(self, model_id: str) -> None:
        self.changes.append(model_id)

    async def drained(self, model: Loadable, instance: str) -> None:
        event = self.busy.get((model.id, instance))
        if event is not None:
            await event.wait()


class Recorder:
    """Hears everything as (what, model, instance, number)."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str, int]] = []

    def load_started(self, model: Loadable, instance: str, queued_ms: int) -> None:
        self.heard.append(("load_started", model.id, instance, queued_ms))

    def load_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        self.heard.append(("load_failed" if error else "loaded", model.id, instance, took_ms))

    def sized(self, model: Loadable, instance: str, size: int, took_ms: int) -> None:
        self.heard.append(("sized", model.id, instance, size))

    def evicted(self, model: Loadable, instance: str, age_ms: int) -> None:
        self.heard.append(("evicted", model.id, instance, age_ms))

    def unload_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        self.heard.append(("unload_failed" if error else "unloaded", model.id, instance, took_ms))


class World:
    """Placement among fakes."""

    def __init__(self, settings: PlacementSettings | None = None, seed: int = 1) -> None:
        self.clock = FakeClock()
        self.catalog = FakeCatalog(self.clock)
        self.router = FakeRouter()
        self.recorder = Recorder()
        self.placement = Placement(
            self.catalog, self.router, self.recorder, self.clock, settings or PlacementSettings(), Random(seed)
        )
        self.instances: dict[str, FakeInstance] = {}

    def add(
        self, name: str = "a", capacity: int = 1024 * MIB, labels: Iterable[str] = (), **times: int
    ) -> FakeInstance:
        instance = FakeInstance(self.clock, name, capacity, labels, **times)
        self.instances[name] = instance
        self.placement.add_instance(instance)
        return instance

    async def load(self, model_id: str, *, urgent: bool = False, wait_ms: int = 60_000) -> None:
        """Have a model loaded now. Raises what the ticket raises."""
        ticket = self.placement.ensure_loaded(model_id, self.clock.now(), urgent=urgent)
        await settle()
        while not ticket.done() and wait_ms > 0:
            await self.clock.advance(5)
            wait_ms -= 5
        assert ticket.done(), f"{model_id} is still not loaded"
        ticket.result()

    def where(self, model_id: str) -> set[str]:
        return set(self.placement.loaded(model_id))

    def states(self, model_ids: Iterable[str]) -> list[str]:
        return [self.placement.status(model_id).status.name for model_id in model_ids]

    def faults(self) -> list[str]:
        return [fault for instance in self.instances.values() for fault in instance.faults]

    async def close(self) -> None:
        await self.placement.close()
