"""Keeps one Triton instance at what is wanted of it: compares its index, loads, unloads, notices losses.

SQL and the models' managers say what is wanted; Triton's index says what runs; this loop closes the gap, once a second
and whenever somebody kicks it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, Protocol

from bridge.errors import BridgeError, Code, Unavailable
from bridge.lifecycle.copies import Copies, CopyListener, Deliver, InstanceLimits, WarmUp, already_there, no_warm_up
from bridge.lifecycle.pings import Pings
from bridge.lifecycle.retries import Retries
from bridge.lifecycle.room import Room
from bridge.lifecycle.servable import Placeable
from bridge.placement.errors import InsufficientResources
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import CallError, Fault
from bridge.triton.errors import says_dead_runner
from bridge.triton.instance import IndexEntry, LoadFailure, RunnerInfo, TritonInstance
from model_repo_sync import names
from model_repo_sync.repository import ModelRepository

logger = logging.getLogger(__name__)

PING_SECONDS = 3.0
MISSES_BEFORE_DOWN = 3


class Wanted(Protocol):
    """What the instance is measured against."""

    def servables(self) -> Mapping[str, Placeable]:
        """Versions to hold, by Triton name."""

    def is_known(self, triton_name: str, instance: str) -> bool:
        """Whether some version that is managed, or may still turn out wanted, has this name; or whether this instance
        shall hold such a copy."""

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        """Names of the instances that hold a loaded copy."""


class InstanceListener(CopyListener, Protocol):
    """Who hears of changes."""

    def instance_changed(self, instance: str, up: bool, reason: str) -> None: ...


class ServerProcess(Protocol):
    """The process of an instance that this bridge runs itself."""

    def runners(self) -> Collection[str]:
        """Triton names of the models that a runner's process lives for."""

    def restart(self, reason: str) -> None:
        """End the process, so that another one takes its place; not more often than does good."""


class InstanceController:
    """One instance. `check` is run each time the instance comes up and raises Unavailable when it is not fit."""

    def __init__(
        self,
        name: str,
        repository: ModelRepository,
        wanted: Wanted,
        listener: InstanceListener,
        executor: Executor,
        limits: InstanceLimits,
        check: Callable[[TritonInstance], Awaitable[None]],
        warm_up: WarmUp = no_warm_up,
        deliver: Deliver = already_there,
    ) -> None:
        self.name = name
        self.up = False
        self.route: InstanceRoute | None = None
        self.room: Room | None = None
        """What pinned servables find room in; None is without limits."""
        self._copies = Copies(name, repository, listener, executor, limits, warm_up, deliver)
        self._process: ServerProcess | None = None
        self._repository = repository
        self._wanted = wanted
        self._listener = listener
        self._limits = limits
        self._check = check
        self._pings = Pings()
        self._reloads: dict[str, asyncio.Task[None]] = {}
        self._dying: set[str] = set()
        self._reload_retries = Retries()
        self._removal_retries = Retries()
        self._misses = 0
        self._kick = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def loaded(self) -> Collection[str]:
        """Triton names of the copies that serve."""
        return self._copies.loaded

    @property
    def server(self) -> TritonInstance | None:
        """The server that is attached now."""
        return self._copies.server

    @property
    def found(self) -> Collection[str]:
        """Triton names of this deployment's copies that served already when the instance came up."""
        return self._copies.found

    @property
    def reason(self) -> str:
        """Why the instance is down, empty when it is up."""
        return self._copies.down

    def attach(self, server: TritonInstance, route: InstanceRoute, process: ServerProcess | None = None) -> None:
        """Work with this server from now on; a restarted child has other ports."""
        if self._copies.server is not None:
            self.detach("another server takes its place")
        self._copies.server = server
        self._process = process
        self.route = route
        self.kick()

    def detach(self, reason: str) -> None:
        """The server is known to be gone."""
        server, self._copies.server = self._copies.server, None
        self._process = None
        self._copies.stuck.forget()
        self._go_down(reason)
        if server is not None:
            self._spawn(server.close(), f"closing of the connection to instance {self.name}")

    def stored(self, triton_name: str) -> str | None:
        """Where the content of a version lies in this instance's repository, None where it does not."""
        return self._repository.saved_model(triton_name)

    def kick(self) -> None:
        """Look now."""
        self._kick.set()

    def suspect(self, triton_name: str, reason: str) -> None:
        """A request met trouble on this copy: replace it if its runner is known to be dead, else ask it, now."""
        if triton_name not in self.loaded or self._busy(triton_name):
            return
        if says_dead_runner(reason):
            self._replace(triton_name, reason)
            return
        self._pings.suspect(triton_name)
        self.kick()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self._kick.clear()
            try:
                await self.look()
            except Exception:
                logger.exception("looking after instance %s failed", self.name)
            try:
                async with asyncio.timeout(self._limits.interval):
                    await self._kick.wait()
            except TimeoutError:
                pass

    async def look(self) -> None:
        """One round: index, losses, suspects, missing copies, left-overs."""
        server = self._copies.server
        index = await self._index(server) if server is not None else None
        if server is None or index is None:
            return
        if not self.up:
            self._copies.found = {
                name for name, entry in index.items() if entry.state == "READY" and self._is_ours(name)
            }
        if not await self._is_fit(server):
            return
        self._find_losses(index)
        self._find_stuck_loads(index)
        await asyncio.gather(*(self._ask(name, server) for name in self._pings.next(self.loaded)))
        self._load_missing()
        self._clean(index)

    async def load(self, servable: Placeable, *, warm_up: bool = True) -> None:
        """Put `servable` on this instance. Raises LoadFailure."""
        await self._copies.load(servable, warm_up=warm_up)
        self._pings.clear(servable.triton_name)

    async def load_pinned(self, servable: Placeable, *, warm_up: bool = True) -> None:
        """Put `servable` there for good. Raises LoadFailure, InsufficientResources."""
        room, name = self.room, servable.triton_name
        if room is None:
            await self.load(servable, warm_up=warm_up)
            return
        try:
            await room.take(self.name, servable)
            await self.load(servable, warm_up=warm_up)
        except BaseException:
            room.give_back(self.name, name)
            raise
        self._spawn(self._measure(name, room), f"sizing of {name}")

    async def _measure(self, name: str, room: Room) -> None:
        try:
            size = (await self.describe(name)).bytes
        except BridgeError as error:
            logger.debug("the size of %s on instance %s is unknown: %s", name, self.name, error)
        else:
            room.measured(self.name, name, size)

    async def describe(self, triton_name: str) -> RunnerInfo:
        """What the runner of a loaded copy says of itself. Raises CallError, Unavailable while there is no server."""
        if self._copies.server is None:
            raise Unavailable(f"Triton {self.name} is down: {self.reason}")
        return await self._copies.server.ping(triton_name, PING_SECONDS)

    async def unload(self, triton_name: str) -> bool:
        """Take a copy off this instance and out of its repository; whether Triton let go of it.

        Trouble is logged; later rounds try again.
        """
        if triton_name in self._reloads:
            self._reloads[triton_name].cancel()
        gone = False
        try:
            gone = await self._copies.unload(triton_name)
        except OSError as error:
            logger.warning("removing %s from instance %s will be tried again: %s", triton_name, self.name, error)
            self._removal_retries.failed(triton_name)
        else:
            self._removal_retries.succeeded(triton_name)
        self._reload_retries.succeeded(triton_name)
        if self.room is not None:
            self.room.give_back(self.name, triton_name)
        return gone

    async def close(self) -> None:
        """End the tasks of this instance; nothing is unloaded."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._copies.server is not None:
            await self._copies.server.close()

    async def _index(self, server: TritonInstance) -> Mapping[str, IndexEntry] | None:
        try:
            index = await server.index()
        except BridgeError as error:
            self._misses += 1
            if error.code is not Code.DEADLINE_EXCEEDED or self._misses >= MISSES_BEFORE_DOWN:
                self._go_down(error.message)
            return None
        self._misses = 0
        return index

    async def _is_fit(self, server: TritonInstance) -> bool:
        if self.up:
            return True
        try:
            await self._check(server)
        except (BridgeError, OSError) as error:
            self._say(False, str(error))
            return False
        if server is not self._copies.server:
            return False
        self._say(True, "")
        return True

    def _go_down(self, reason: str) -> None:
        self._say(False, reason)
        self._copies.lose(tuple(self.loaded), reason)

    def _say(self, up: bool, reason: str) -> None:
        changed = (up, reason) != (self.up, self._copies.down)
        self.up, self._copies.down = up, reason
        if changed:
            self._reload_retries.all_due()
            self._listener.instance_changed(self.name, up, reason)

    def _find_losses(self, index: Mapping[str, IndexEntry]) -> None:
        for name in list(self.loaded):
            entry = index.get(name)
            if (entry is None or entry.state != "READY") and not self._busy(name):
                state = entry.state or "not loaded" if entry else "not in the index"
                self._copies.lose((name,), f"Triton says {state}")

    def _find_stuck_loads(self, index: Mapping[str, IndexEntry]) -> None:
        process = self._process
        if process is None:
            self._copies.stuck.look(index, lambda name: True)
            return
        runners = functools.cache(process.runners)
        lost = self._copies.stuck.look(index, lambda name: name in runners())
        if lost:
            process.restart(f"the runner of {', '.join(lost)} died while it started, and Triton waits for it")

    async def _ask(self, name: str, server: TritonInstance) -> None:
        if self._busy(name):
            return
        try:
            await server.ping(name, PING_SECONDS)
        except CallError as error:
            if error.fault in (Fault.RUNNER, Fault.NOT_READY) and name in self.loaded:
                self._replace(name, error.message)

    def _replace(self, name: str, reason: str) -> None:
        self._dying.add(name)
        self._copies.lose((name,), reason)
        self._spawn(self._reset(name), f"unload of the dead {name}")

    async def _reset(self, name: str) -> None:
        try:
            await self._copies.reset(name)
        finally:
            self._dying.discard(name)
        self.kick()

    def _load_missing(self) -> None:
        for name, servable in self._wanted.servables().items():
            if name not in self.loaded and not self._busy(name) and self._reload_retries.due(name):
                self._reloads[name] = self._spawn(self._reload(servable), f"reload of {name}")
                self._reloads[name].add_done_callback(functools.partial(self._reloaded, name))

    async def _reload(self, servable: Placeable) -> None:
        name = servable.triton_name
        try:
            # Where no copy is left requests wait for this one already, and warm it up themselves.
            await self.load_pinned(servable, warm_up=bool(self._wanted.instances_with(name)))
        except (LoadFailure, InsufficientResources) as failure:
            logger.warning("cannot bring %s back on instance %s: %s", servable, self.name, failure.message)
            self._reload_retries.failed(name)
        except Exception:
            self._reload_retries.failed(name)
            raise
        else:
            self._reload_retries.succeeded(name)

    def _reloaded(self, name: str, task: asyncio.Task[None]) -> None:
        del self._reloads[name]

    def _clean(self, index: Mapping[str, IndexEntry]) -> None:
        """Unload what no version wants, and remove its directory. What is gone from there and not served is done."""
        removed, wanted = self._copies.removed, self._wanted.servables()
        removed &= index.keys()
        for name, entry in index.items():
            left = name not in wanted and (entry.state == "READY" or name not in removed)
            if left and self._is_ours(name) and not self._wanted.is_known(name, self.name) and self._may_remove(name):
                logger.info("removing %s from instance %s: no version wants it", name, self.name)
                self._spawn(self.unload(name), f"removal of {name}")

    def _is_ours(self, name: str) -> bool:
        servable = names.parse(name)
        return servable is not None and servable.deployment == self._repository.deployment

    def _may_remove(self, name: str) -> bool:
        return not self._busy(name) and self._removal_retries.due(name)

    def _busy(self, name: str) -> bool:
        return name in self._reloads or name in self._dying or self._copies.busy(name)

    def _spawn(self, work: Coroutine[Any, Any, object], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
