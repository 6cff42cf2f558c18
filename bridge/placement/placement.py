"""Placement: which models are loaded where. One object on one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from bridge.placement.cache import Entry, EntryState
from bridge.placement.choice import Chooser
from bridge.placement.clock import Clock
from bridge.placement.errors import InsufficientResources, PlacementLoadError, model_not_found
from bridge.placement.failures import FailureRules
from bridge.placement.host import Host
from bridge.placement.hosts import Hosts
from bridge.placement.model import Copy, CopyState, ErrorKind, Failure, Loadable, ModelStatus, Status
from bridge.placement.moves import Mover
from bridge.placement.ports import CacheInstance, Catalog, PlacementObserver, Router
from bridge.placement.settings import PlacementSettings
from bridge.placement.sizes import Sizes
from bridge.placement.tasks import Tasks
from bridge.placement.upkeep import Upkeep
from bridge.placement.usage import Usage
from bridge.placement.wishes import Ticket, Wishes

logger = logging.getLogger(__name__)


class InstanceView(NamedTuple):
    """One instance as operators see it: sizes in bytes, `oldest_use_ms` milliseconds UTC, None without models."""

    name: str
    up: bool
    draining: bool
    capacity: int
    usable: int
    used: int
    pinned: int
    models: int
    loading: int
    oldest_use_ms: int | None


class Placement:
    """Loads models on demand, keeps those that are used, makes room by taking off the least recently used.

    Methods act at once unless they are coroutines. Failures are recorded in `catalog`; `router` hears of each change of
    the loaded copies and says when a withdrawn one has no request left.
    """

    def __init__(
        self,
        catalog: Catalog,
        router: Router,
        observer: PlacementObserver,
        clock: Clock,
        settings: PlacementSettings | None = None,
        random: Random | None = None,
    ) -> None:
        self.settings = settings or PlacementSettings()
        self._catalog = catalog
        self._clock = clock
        self._hosts = Hosts()
        self._usage = Usage(self.settings, clock.now())
        self._rules = FailureRules(self.settings)
        self._tasks = Tasks()
        sizes = self._sizes = Sizes(self.settings.default_size)
        self._mover = Mover(self.settings, clock, router, observer, sizes, self._tasks)
        self._mover.listen(self)
        chooser = Chooser(self.settings, random or Random(), self._instance_rpm)
        self._chooser = chooser
        self._wishes = Wishes(
            self.settings, clock, self._hosts, chooser, self._mover, catalog, self._usage, sizes, self._tasks
        )
        self._upkeep = Upkeep(
            self.settings, clock, self._hosts, chooser, self._mover, self._wishes, catalog, self._usage, sizes
        )
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Call `tick` in its interval until cancelled."""
        while True:
            await self._clock.sleep(self.settings.rate_interval_ms)
            self.tick()

    def tick(self) -> None:
        """Second copies, scaling by rate, expiry of failures, filling of free space."""
        self._upkeep.round()

    async def close(self) -> None:
        """End all work; nothing is unloaded."""
        await self._tasks.close()

    # Models

    def ensure_loaded(self, model_id: str, last_used_ms: int, *, urgent: bool = False, copies: int = 1) -> Ticket:
        """Have a model loaded, `copies` times if so many instances may hold it.

        The ticket resolves once that many copies serve. It raises PlacementLoadError: NOT_FOUND for an unknown model,
        the newest failure after too many, UNAVAILABLE where no instance takes the model. What can be said at once is
        said at once: the ticket is then done when it is returned. `urgent` is for a request that waits: it comes first
        and makes room at anybody's expense, while other loads displace only copies that were used before
        `last_used_ms`. The load goes on if the ticket is cancelled.
        """
        model = self._catalog.get(model_id)
        if model is None:
            return _refused(model_not_found())
        self._retire_others(model)
        self._usage.touch(model_id, last_used_ms)
        for entry in self._hosts.entries(model_id):
            entry.last_used = max(entry.last_used, last_used_ms)
        return self._wishes.want(model, last_used_ms, urgent=urgent, copies=copies)

    def used(self, model_id: str, count: int) -> None:
        """Requests were sent to copies of this model just now."""
        now = self._clock.now()
        self._usage.used(model_id, count, now)
        for entry in self._hosts.entries(model_id):
            entry.last_used = now
            if entry.safe_until:
                entry.safe_until = 0
                self._wishes.pursue_soon()

    def last_used(self, model_id: str) -> int:
        """Milliseconds UTC, 0 for never as far as is known."""
        return max(self._usage.last_used(model_id), self._catalog.last_used(model_id))

    def remove(self, model_id: str) -> None:
        """The model is registered no more: its copies serve nobody from now on and go once requests are done."""
        self._wishes.forget(model_id, model_not_found())
        self._retire(self._hosts.entries(model_id))
        self._usage.forget(model_id)
        self._sizes.forget(model_id)
        self._upkeep.forget(model_id)

    def copies(self, model_id: str) -> tuple[Copy, ...]:
        """Copies that serve, are on their way, or failed and keep their instance from being tried; newest first."""
        model = self._catalog.get(model_id)
        if model is None:
            return ()
        present = [entry.copy() for entry in self._hosts.entries(model_id) if entry.model.key == model.key]
        having = {copy.instance for copy in present}
        failed = [
            Copy(item.instance, CopyState.LOADING_FAILED, item.at_ms, 0)
            for item in self._failures(model_id)
            if item.instance not in having
        ]
        return tuple(sorted(present + failed, key=lambda copy: copy.since_ms, reverse=True))

    def loaded(self, model_id: str) -> tuple[str, ...]:
        """The instances whose copies of the current registration serve."""
        return tuple(copy.instance for copy in self.copies(model_id) if copy.state is CopyState.LOADED)

    def status(self, model_id: str) -> ModelStatus:
        """Status, errors and copies of a model."""
        if self._catalog.get(model_id) is None:
            return ModelStatus(Status.NOT_FOUND)
        copies = self.copies(model_id)
        having = {copy.instance for copy in copies if copy.state is not CopyState.LOADING_FAILED}
        errors = [item.message for item in self._failures(model_id) if item.instance not in having and item.message]
        return ModelStatus(self._status(model_id, copies), tuple(errors), copies)

    def possible_copies(self, model_type: str) -> int:
        """How many instances may hold a model of this type now."""
        return len(self._chooser.allowed(self._hosts.all(), model_type))

    def _status(self, model_id: str, copies: Iterable[Copy]) -> Status:
        states = {copy.state for copy in copies}
        if CopyState.LOADED in states:
            return Status.LOADED
        if CopyState.LOADING in states or model_id in self._wishes:
            return Status.LOADING
        return Status.LOADING_FAILED if CopyState.LOADING_FAILED in states else Status.NOT_LOADED

    def _failures(self, model_id: str) -> tuple[Failure, ...]:
        recorded = self._catalog.failures(model_id)
        return self._rules.unexpired(recorded, self._usage.last_used(model_id), self._clock.now())

    def _retire_others(self, model: Loadable) -> None:
        self._retire(entry for entry in self._hosts.entries(model.id) if entry.model.key != model.key)

    def _retire(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._mover.withdraw(self._hosts[entry.instance], entry)

    # Instances

    def add_instance(self, instance: CacheInstance) -> None:
        """Place copies on this instance, too, while it is up."""
        self._hosts.add(Host(instance, self.settings))
        self._wishes.pursue_soon()

    def instances(self) -> tuple[InstanceView, ...]:
        return tuple(_view(host) for host in self._hosts)

    def instance_lost(self, name: str) -> None:
        """An instance is down and its copies are gone."""
        host = self._hosts.get(name)
        if host is not None:
            self._mover.lose_all(host)
            self.moved(host)

    def instance_back(self, name: str) -> None:
        """An instance is up again, and empty but for what `restore` finds."""
        host = self._hosts.get(name)
        if host is not None:
            self._mover.pump(host)
            self._wishes.pursue_soon()

    def copy_lost(self, model_id: str, name: str) -> None:
        """A loaded copy is gone by itself."""
        host = self._hosts.get(name)
        entry = host.loaded(model_id) if host is not None else None
        if host is not None and entry is not None:
            self._mover.lose(host, entry)

    def restore(self, name: str, model_id: str) -> bool:
        """Load a model on the instance that had a copy before, as long as there is room without evicting others.

        Where the instance still has the copy, that takes no time. False for a model that is not registered any more,
        or finds no room.
        """
        host = self._hosts[name]
        model = self._catalog.get(model_id)
        if model is None or model_id in host.cache.entries or self._sizes.expected(model) > host.cache.free:
            return False
        last_used = self.last_used(model_id)
        entry = Entry(model, name, self._sizes.expected(model), last_used, last_used, self._clock.now())
        self._mover.place(host, entry, ())
        return True

    async def drain(self, name: str) -> tuple[str, ...]:
        """Empty an instance: load its models elsewhere first, then take them off; return once all are unloaded.

        It takes no copy until `resume`. Returns the models that found no other place and are not loaded any more.
        """
        host = self._hosts[name]
        host.draining = True
        newest_first = sorted(host.cache.entries.values(), key=lambda entry: -entry.last_used)
        moved = await asyncio.gather(*(self._move_away(host, entry) for entry in newest_first))
        while host.cache.leaving and host.instance.up:
            await self._changed.wait()
        return tuple(entry.model.id for entry, done in zip(newest_first, moved, strict=True) if not done)

    def resume(self, name: str) -> None:
        """Let an instance that was drained take copies again."""
        self._hosts[name].draining = False
        self.instance_back(name)

    async def _move_away(self, host: Host, entry: Entry) -> bool:
        try:
            if entry.state is EntryState.LOADED:
                await self._wishes.want(entry.model, entry.last_used, urgent=False, copies=1)
        except PlacementLoadError as error:
            logger.warning("model %s leaves instance %s for no other: %s", entry.model.id, host.name, error)
            return False
        finally:
            if host.draining:
                self._mover.withdraw(host, entry)
        return True

    def _instance_rpm(self, name: str) -> float:
        entries = self._hosts[name].cache.entries.values()
        return sum(self._usage.rpm(entry.model.id) / len(self._hosts.entries(entry.model.id)) for entry in entries)

    # Pinned servables

    async def pin(self, name: str, key: str, size: int, servable: str) -> None:
        """Set `size` bytes of an instance aside for what is never evicted; return once they are free.

        That takes no longer than a load waits for room. `servable` names it in the error. Raises InsufficientResources
        when they could not be free even without any model.
        """
        host = self._hosts[name]
        if self.settings.refuse_pinned and size > host.cache.usable + host.cache.pinned.get(key, 0):
            raise InsufficientResources(servable)
        host.cache.pinned[key] = size
        self._mover.rebalance(host)
        limit = asyncio.ensure_future(self._clock.sleep(self.settings.room_wait_ms))
        try:
            while host.cache.leaving and not host.cache.has_memory_for(0) and not limit.done():
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait((limit, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            limit.cancel()

    def resize_pinned(self, name: str, key: str, size: int) -> None:
        """A pinned servable turned out to take `size` bytes."""
        host = self._hosts[name]
        if key in host.cache.pinned:
            host.cache.pinned[key] = size
            self._mover.rebalance(host)
            self._mover.pump(host)
            self.moved(host)

    def unpin(self, name: str, key: str) -> None:
        """A pinned servable was unloaded."""
        host = self._hosts[name]
        if host.cache.pinned.pop(key, None) is not None:
            self._mover.pump(host)
            self.moved(host)

    # MoveListener

    def served(self, entry: Entry) -> None:
        if any(item.instance == entry.instance for item in self._catalog.failures(entry.model.id)):
            self._catalog.forget(entry.model.id, (entry.instance,))
        self._wishes.loaded(entry.model.id)

    def displaced(self, entry: Entry) -> None:
        self._wishes.pursue_soon()

    def moved(self, host: Host) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._wishes.pursue_soon()

    def failed(self, entry: Entry, error: PlacementLoadError) -> None:
        if error.kind is ErrorKind.MODEL:
            self._catalog.failed(entry.model.id, entry.instance, error.code, error.message)
        self._wishes.failed(entry, error)


def _refused(error: PlacementLoadError) -> Ticket:
    ticket: Ticket = asyncio.get_running_loop().create_future()
    ticket.set_exception(error)
    ticket.exception()
    return ticket


def _view(host: Host) -> InstanceView:
    cache = host.cache
    return InstanceView(
        name=host.name,
        up=host.instance.up,
        draining=host.draining,
        capacity=cache.capacity.total,
        usable=cache.usable,
        used=cache.placed,
        pinned=sum(cache.pinned.values()),
        models=len(cache.entries),
        loading=len(host.loading),
        oldest_use_ms=cache.least_recently_used(),
    )
