"""Brings copies onto instances and takes them off, within each instance's memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from bridge.errors import BridgeError, Code
from bridge.placement.cache import Entry, EntryState
from bridge.placement.clock import Clock
from bridge.placement.errors import PlacementLoadError
from bridge.placement.host import Host
from bridge.placement.model import ErrorKind
from bridge.placement.ports import PlacementObserver, Router
from bridge.placement.settings import PlacementSettings
from bridge.placement.sizes import Sizes
from bridge.placement.tasks import Tasks

logger = logging.getLogger(__name__)


class MoveListener(Protocol):
    """Who decides what follows."""

    def served(self, entry: Entry) -> None:
        """A copy serves."""

    def failed(self, entry: Entry, error: PlacementLoadError) -> None:
        """A copy could not be loaded; its place is free again."""

    def displaced(self, entry: Entry) -> None:
        """A copy lost its place before it served."""

    def moved(self, host: Host) -> None:
        """Something ended on this instance: there may be room now."""


class Mover:
    """Loads in the order of priorities, each once there is memory for it; unloads once requests are done.

    Every method acts at once; what takes time goes on in tasks.
    """

    def __init__(
        self,
        settings: PlacementSettings,
        clock: Clock,
        router: Router,
        observer: PlacementObserver,
        sizes: Sizes,
        tasks: Tasks,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._router = router
        self._observer = observer
        self._sizes = sizes
        self._tasks = tasks
        self._room_timers: dict[Entry, asyncio.Task[None]] = {}
        self._listener: MoveListener | None = None

    def listen(self, listener: MoveListener) -> None:
        """Say before the first move who hears of them."""
        self._listener = listener

    def place(self, host: Host, entry: Entry, victims: Iterable[Entry]) -> None:
        """Give a new copy its place, from which `victims` go."""
        host.put(entry)
        self.evict(host, victims)
        self.pump(host)

    def evict(self, host: Host, victims: Iterable[Entry]) -> None:
        """Take copies off that have to make room."""
        for victim in victims:
            age = self._clock.now() - victim.last_used
            logger.info("evicting model %s from instance %s, used %d ms ago", victim.model.id, host.name, age)
            self._observer.evicted(victim.model, host.name, age)
            self.withdraw(host, victim)

    def withdraw(self, host: Host, entry: Entry) -> None:
        """Take a copy off: at once out of sight, its memory counts until it is unloaded."""
        if host.cache.entries.get(entry.model.id) is not entry:
            return
        host.take(entry)
        self._stop_timer(entry)
        if entry.state is EntryState.QUEUED:
            self._require().displaced(entry)
            self._require().moved(host)
            return
        host.cache.leaving.add(entry)
        if entry.state is EntryState.LOADING:
            entry.unwanted = True
            self._require().displaced(entry)
            return
        self._router.changed(entry.model.id)
        self._tasks.spawn(self._unload(host, entry), f"unload of {entry.model.id} from {host.name}")

    def lose(self, host: Host, entry: Entry) -> None:
        """A loaded copy is gone by itself."""
        entry.gone = True
        host.take(entry)
        self._router.changed(entry.model.id)
        self._require().moved(host)

    def lose_all(self, host: Host) -> None:
        """An instance is gone with its copies."""
        lost = host.forget()
        for entry in lost:
            self._stop_timer(entry)
        for model_id in {entry.model.id for entry in lost if entry.state is EntryState.LOADED}:
            self._router.changed(model_id)

    def resize(self, host: Host, entry: Entry, size: int) -> None:
        """A loaded copy takes `size` bytes: make room if that is more than predicted."""
        self._sizes.measured(entry.model, size)
        entry.size = size
        if size > host.cache.usable:
            self.withdraw(host, entry)
            self._require().failed(entry, _too_large(host, entry))
            return
        self.rebalance(host, entry)

    def rebalance(self, host: Host, keep: Entry | None = None) -> None:
        """Evict as many copies, but for `keep`, as are placed beyond the room that there is."""
        self.evict(host, host.cache.overdue(keep, self._clock.now()))

    def pump(self, host: Host) -> None:
        """Start the loads whose turn it is and for which there is memory."""
        while host.instance.up and (entry := host.next()) is not None:
            if not host.cache.has_memory_for(entry.size):
                self._start_timer(host, entry)
                if not host.cache.leaving:
                    self.rebalance(host, entry)
                return
            self._start(host, entry)

    def _start(self, host: Host, entry: Entry) -> None:
        now = self._clock.now()
        self._stop_timer(entry)
        self._observer.load_started(entry.model, host.name, now - entry.since)
        host.queue.discard(entry)
        host.loading.add(entry)
        entry.move(EntryState.LOADING, now)
        self._tasks.spawn(self._load(host, entry), f"load of {entry.model.id} on {host.name}")

    async def _load(self, host: Host, entry: Entry) -> None:
        started = self._clock.now()
        error = None
        size = 0
        try:
            size = await host.instance.load(entry.model)
        except PlacementLoadError as failure:
            error = failure
        except Exception as failure:
            logger.exception("loading model %s on instance %s met an unexpected fault", entry.model.id, host.name)
            text = f"{type(failure).__name__}: {failure}"
            error = PlacementLoadError(Code.INTERNAL, text, ErrorKind.PLATFORM)
        self._observer.load_ended(entry.model, host.name, self._clock.now() - started, error)
        host.loading.discard(entry)
        if not entry.gone:
            self._loaded(host, entry, size, error)
            self.rebalance(host, entry)
            self.pump(host)

    def _loaded(self, host: Host, entry: Entry, size: int, error: PlacementLoadError | None) -> None:
        if error is not None or entry.unwanted:
            host.take(entry)
            host.cache.leaving.add(entry)
            self._tasks.spawn(self._unload(host, entry), f"unload of {entry.model.id} from {host.name}")
            if error is not None and not entry.unwanted:
                self._require().failed(entry, error)
            return
        self._serve(host, entry)
        self._require().served(entry)
        if size:
            self._observer.sized(entry.model, host.name, size, 0)
            self.resize(host, entry, size)
        else:
            self._tasks.spawn(self._measure(host, entry), f"sizing of {entry.model.id} on {host.name}")
        self._require().moved(host)

    def _serve(self, host: Host, entry: Entry) -> None:
        now = self._clock.now()
        entry.move(EntryState.LOADED, now)
        if entry.urgent:
            entry.last_used = max(entry.last_used, now)
            entry.safe_until = now + self._settings.settle_ms
            self._tasks.spawn(self._settle(host, entry), f"settling of {entry.model.id} on {host.name}")
        self._router.changed(entry.model.id)

    async def _settle(self, host: Host, entry: Entry) -> None:
        await self._clock.sleep(self._settings.settle_ms)
        self.rebalance(host)
        self._require().moved(host)

    async def _measure(self, host: Host, entry: Entry) -> None:
        started = self._clock.now()
        try:
            size = await host.instance.model_size(entry.model)
        except BridgeError as error:
            logger.warning("the size of model %s on instance %s is unknown: %s", entry.model.id, host.name, error)
            return
        if size and not entry.gone and host.cache.entries.get(entry.model.id) is entry:
            self._observer.sized(entry.model, host.name, size, self._clock.now() - started)
            self.resize(host, entry, size)
            self.pump(host)

    async def _unload(self, host: Host, entry: Entry) -> None:
        if entry.state is EntryState.LOADED:
            await self._drain(entry)
        while not entry.gone and not await self._unloaded(host, entry):
            await self._clock.sleep(self._settings.unload_retry_ms)
        if not entry.gone:
            host.cache.leaving.discard(entry)
            self.pump(host)
            self._require().moved(host)

    async def _drain(self, entry: Entry) -> None:
        if self._settings.drain_delay_ms:
            await self._clock.sleep(self._settings.drain_delay_ms)
        drained = asyncio.ensure_future(self._router.drained(entry.model, entry.instance))
        limit = asyncio.ensure_future(self._clock.sleep(self._settings.drain_limit_ms))
        try:
            await asyncio.wait((drained, limit), return_when=asyncio.FIRST_COMPLETED)
            if not drained.done():
                logger.warning("unloading model %s from %s under requests", entry.model.id, entry.instance)
        finally:
            drained.cancel()
            limit.cancel()

    async def _unloaded(self, host: Host, entry: Entry) -> bool:
        started = self._clock.now()
        error = None
        try:
            await host.instance.unload(entry.model)
        except BridgeError as failure:
            error = failure if failure.code is not Code.NOT_FOUND else None
        self._observer.unload_ended(entry.model, host.name, self._clock.now() - started, error)
        if error is not None:
            logger.warning("unloading model %s from %s will be tried again: %s", entry.model.id, host.name, error)
        return error is None

    def _start_timer(self, host: Host, entry: Entry) -> None:
        if entry not in self._room_timers:
            name = f"wait for room for {entry.model.id} on {host.name}"
            self._room_timers[entry] = self._tasks.spawn(self._give_up(host, entry), name)

    def _stop_timer(self, entry: Entry) -> None:
        timer = self._room_timers.pop(entry, None)
        if timer is not None:
            timer.cancel()

    async def _give_up(self, host: Host, entry: Entry) -> None:
        await self._clock.sleep(self._settings.room_wait_ms)
        self._room_timers.pop(entry, None)
        host.take(entry)
        sentence = f"instance {host.name} has no room for model {entry.model.id} of {entry.size} bytes"
        self._require().failed(entry, PlacementLoadError(Code.UNAVAILABLE, sentence, ErrorKind.CAPACITY))
        self.pump(host)
        self._require().moved(host)

    def _require(self) -> MoveListener:
        assert self._listener is not None, "listen() comes first"
        return self._listener


def _too_large(host: Host, entry: Entry) -> PlacementLoadError:
    return PlacementLoadError(
        Code.UNAVAILABLE,
        f"Size of {entry.size} bytes for model {entry.model.id} is larger than total effective capacity of "
        f"{host.cache.usable} bytes",
    )
