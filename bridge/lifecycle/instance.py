"""Keeps one Triton instance at what is wanted of it: compares its index, loads, unloads, notices losses.

SQL and the models' managers say what is wanted; Triton's index says what runs; this loop closes the gap, once a second
and whenever somebody kicks it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.errors import BridgeError, Code, Unavailable
from bridge.lifecycle.backoff import Backoff
from bridge.lifecycle.servable import Servable
from bridge.serving.routes import InstanceRoute
from bridge.serving.single_copy import Send
from bridge.triton.calls import CallError, Fault
from bridge.triton.errors import says_dead_runner
from bridge.triton.instance import FailureKind, IndexEntry, LoadFailure, TritonInstance
from model_repo_sync import names
from model_repo_sync.repository import ModelRepository
from model_repo_sync.transfer import TransferError
from model_repo_sync.triton_config import ConfigError

logger = logging.getLogger(__name__)

PING_SECONDS = 3.0
PINGS_PER_ROUND = 8
MISSES_BEFORE_DOWN = 3


class Wanted(Protocol):
    """What the instance is measured against."""

    def servables(self) -> Mapping[str, Servable]:
        """Versions to hold, by Triton name."""

    def is_known(self, triton_name: str) -> bool:
        """Whether some version that is managed, or may still turn out wanted, has this name."""

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        """Names of the instances that hold a loaded copy."""


class InstanceListener(Protocol):
    """Who hears of changes."""

    def copies_changed(self, triton_names: Collection[str]) -> None: ...

    def copy_loaded(self, instance: str, servable: Servable) -> None: ...

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None: ...

    def instance_changed(self, instance: str, up: bool, reason: str) -> None: ...


WarmUp = Callable[[Servable, Send, float], Awaitable[None]]
"""Prepares a loaded copy for requests by some, each within some seconds. Raises BridgeError when one fails."""


async def no_warm_up(servable: Servable, send: Send, longest: float) -> None:
    """Copies need no preparation."""


@dataclass(frozen=True)
class InstanceLimits:
    """`load_concurrency` loads at a time, each at most `load_timeout` seconds; a look every `interval` seconds."""

    load_concurrency: int
    load_timeout: float
    interval: float = 1.0
    unload_timeout: float = 60.0


class InstanceController:
    """One instance.

    `check` is run each time the instance comes up and raises Unavailable when it is not fit. `warm_up` prepares the
    copies that are not missed already.
    """

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
    ) -> None:
        self.name = name
        self.up = False
        self.reason = "not looked at yet"
        self.loaded: set[str] = set()
        self.route: InstanceRoute | None = None
        self._instance: TritonInstance | None = None
        self._repository = repository
        self._wanted = wanted
        self._listener = listener
        self._executor = executor
        self._limits = limits
        self._check = check
        self._warm_up = warm_up
        self._slots = asyncio.Semaphore(limits.load_concurrency)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._suspects: dict[str, str] = {}
        self._not_before: dict[str, float] = {}
        self._backoffs: defaultdict[str, Backoff] = defaultdict(Backoff)
        self._misses = 0
        self._ping_next: list[str] = []
        self._kick = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self, instance: TritonInstance, route: InstanceRoute) -> None:
        """Work with this server from now on; a restarted child has other ports."""
        self._instance = instance
        self.route = route
        self.kick()

    def detach(self, reason: str) -> None:
        """The server is known to be gone."""
        self._instance = None
        self._go_down(reason)

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
        self._suspects[triton_name] = reason
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
                await asyncio.wait_for(self._kick.wait(), self._limits.interval)
            except TimeoutError:
                pass

    async def look(self) -> None:
        """One round: index, losses, suspects, missing copies, left-overs."""
        index = await self._index()
        if index is None:
            return
        if not self.up and not await self._come_up():
            return
        self._find_losses(index)
        await self._ask_suspects()
        self._load_missing()
        self._clean(index)

    async def load(self, servable: Servable, *, warm_up: bool = True) -> None:
        """Put `servable` on this instance. Raises LoadFailure."""
        async with self._slots, self._locks[servable.triton_name]:
            instance = self._require()
            await self._write(servable)
            await instance.load(servable.triton_name, self._limits.load_timeout)
            if warm_up:
                await self._warmed_up(servable, instance)
            self._suspects.pop(servable.triton_name, None)
            self._backoffs.pop(servable.triton_name, None)
            if instance is self._instance:
                self.loaded.add(servable.triton_name)
                self._listener.copy_loaded(self.name, servable)
                self._listener.copies_changed((servable.triton_name,))

    async def unload(self, triton_name: str) -> None:
        """Take a copy off this instance and out of its repository. Trouble is logged; the next rounds try again."""
        async with self._locks[triton_name]:
            self.loaded.discard(triton_name)
            try:
                if self._instance is not None:
                    await self._instance.unload(triton_name, self._limits.unload_timeout)
                await self._in_thread(self._repository.remove, triton_name)
            except (BridgeError, OSError) as error:
                logger.warning("unloading %s from instance %s will be tried again: %s", triton_name, self.name, error)
        self._locks.pop(triton_name, None)
        self._backoffs.pop(triton_name, None)

    async def close(self) -> None:
        """End the tasks of this instance; nothing is unloaded."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._instance is not None:
            await self._instance.close()

    def _require(self) -> TritonInstance:
        if self._instance is None or not self.up:
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, f"Triton {self.name} is down: {self.reason}")
        return self._instance

    async def _warmed_up(self, servable: Servable, instance: TritonInstance) -> None:
        """Warm a copy up, or take it off again."""
        try:
            await self._warm_up(servable, instance.infer, self._limits.load_timeout)
        except BridgeError as error:
            try:
                await instance.unload(servable.triton_name, self._limits.unload_timeout)
            except BridgeError as trouble:
                logger.warning("unloading %s from instance %s failed: %s", servable, self.name, trouble)
            raise _warm_up_failure(error) from error

    async def _write(self, servable: Servable) -> None:
        source = servable.saved_model.path
        try:
            await self._in_thread(self._repository.write, servable.triton_name, source, servable.config)
        except (OSError, TransferError) as error:
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, f"cannot fill the repository: {error}") from error
        except ConfigError as error:
            raise LoadFailure(FailureKind.MODEL, Code.INTERNAL, str(error)) from error

    async def _index(self) -> Mapping[str, IndexEntry] | None:
        if self._instance is None:
            return None
        try:
            index = await self._instance.index()
        except BridgeError as error:
            self._misses += 1
            if error.code is not Code.DEADLINE_EXCEEDED or self._misses >= MISSES_BEFORE_DOWN:
                self._go_down(error.message)
            return None
        self._misses = 0
        return index

    async def _come_up(self) -> bool:
        instance = self._instance
        if instance is None:
            return False
        try:
            await self._check(instance)
        except Unavailable as error:
            self._say(False, error.message)
            return False
        self._say(True, "")
        return True

    def _go_down(self, reason: str) -> None:
        lost, self.loaded = self.loaded, set()
        self._say(False, reason)
        for name in lost:
            self._listener.copy_lost(self.name, name, reason)
        if lost:
            self._listener.copies_changed(lost)

    def _say(self, up: bool, reason: str) -> None:
        changed = (up, reason) != (self.up, self.reason)
        self.up, self.reason = up, reason
        if changed:
            self._not_before.clear()
            self._listener.instance_changed(self.name, up, reason)

    def _find_losses(self, index: Mapping[str, IndexEntry]) -> None:
        for name in list(self.loaded):
            entry = index.get(name)
            if (entry is None or entry.state != "READY") and not self._busy(name):
                state = entry.state or "not loaded" if entry else "not in the index"
                self._lose(name, f"Triton says {state}")

    def _lose(self, name: str, reason: str) -> None:
        self.loaded.discard(name)
        self._listener.copy_lost(self.name, name, reason)
        self._listener.copies_changed((name,))

    async def _ask_suspects(self) -> None:
        names = [name for name in self._suspects if name in self.loaded]
        self._suspects.clear()
        if not names:
            names = self._next_pings()
        await asyncio.gather(*(self._ask(name) for name in names))

    def _next_pings(self) -> list[str]:
        if not self._ping_next:
            self._ping_next = sorted(self.loaded)
        round_, self._ping_next = self._ping_next[:PINGS_PER_ROUND], self._ping_next[PINGS_PER_ROUND:]
        return [name for name in round_ if name in self.loaded]

    async def _ask(self, name: str) -> None:
        if self._instance is None or self._busy(name):
            return
        try:
            await self._instance.ping(name, PING_SECONDS)
        except CallError as error:
            if error.fault in (Fault.RUNNER, Fault.NOT_READY) and name in self.loaded:
                self._replace(name, error.message)

    def _replace(self, name: str, reason: str) -> None:
        self._lose(name, reason)
        self._spawn(self._reset(name), f"unload dead {name}")

    async def _reset(self, name: str) -> None:
        """A dead runner is never restarted by Triton and a load is a no-op: only unload and load help."""
        async with self._locks[name]:
            try:
                if self._instance is not None:
                    await self._instance.abandon(name)
            except BridgeError as error:
                logger.warning("unloading the dead %s from instance %s failed: %s", name, self.name, error)
        self.kick()

    def _load_missing(self) -> None:
        now = time.monotonic()
        for name, servable in self._wanted.servables().items():
            if name not in self.loaded and not self._busy(name) and self._not_before.get(name, 0.0) <= now:
                self._not_before[name] = now + self._limits.load_timeout
                self._spawn(self._reload(servable), f"reload {name}")

    async def _reload(self, servable: Servable) -> None:
        name = servable.triton_name
        try:
            # Where no copy is left requests wait for this one already, and warm it up themselves.
            await self.load(servable, warm_up=bool(self._wanted.instances_with(name)))
        except LoadFailure as failure:
            logger.warning("cannot bring %s back on instance %s: %s", servable, self.name, failure.message)
            self._not_before[name] = time.monotonic() + self._backoffs[name].pause()
        else:
            self._not_before.pop(name, None)

    def _clean(self, index: Mapping[str, IndexEntry]) -> None:
        deployment = self._repository.deployment
        for name in index:
            servable = names.parse(name)
            ours = servable is not None and servable.deployment == deployment
            if ours and not self._wanted.is_known(name) and not self._busy(name):
                logger.info("removing %s from instance %s: no version wants it", name, self.name)
                self._spawn(self.unload(name), f"remove {name}")

    def _busy(self, name: str) -> bool:
        return name in self._locks and self._locks[name].locked()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)


def _warm_up_failure(error: BridgeError) -> LoadFailure:
    """A request that the model refuses is a fault of the version; that of a platform says nothing of it."""
    refused = not isinstance(error, CallError) or error.fault is Fault.MODEL
    return LoadFailure(FailureKind.MODEL if refused else FailureKind.PLATFORM, error.code, error.message)
