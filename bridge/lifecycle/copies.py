"""The copies of servables on one Triton instance, put there and taken away; each name by one task at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

from bridge.errors import BridgeError, Code
from bridge.lifecycle.servable import Placeable, Servable
from bridge.lifecycle.stuck_loads import StuckLoads
from bridge.serving.single_copy import Send
from bridge.triton.calls import CallError, Fault
from bridge.triton.instance import FailureKind, LoadFailure, TritonInstance
from model_repo_sync.repository import ModelRepository
from model_repo_sync.transfer import TransferError
from model_repo_sync.triton_config import ConfigError

logger = logging.getLogger(__name__)

WarmUp = Callable[[Servable, Send, float], Awaitable[None]]
"""Prepares a loaded copy for requests by some, each within some seconds. Raises BridgeError when one fails."""


async def no_warm_up(servable: Servable, send: Send, longest: float) -> None:
    """Copies need no preparation."""


Deliver = Callable[[str, float], Awaitable[None]]
"""Returns once the instance can read what its repository has under a name, within some seconds. Raises LoadFailure."""


async def already_there(name: str, longest: float) -> None:
    """The instance reads the repository itself."""


class CopyListener(Protocol):
    """Who hears of copies that come and go."""

    def copies_changed(self, triton_names: Collection[str]) -> None: ...

    def copy_loaded(self, instance: str, servable: Placeable) -> None: ...

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None: ...


@dataclass(frozen=True)
class InstanceLimits:
    """`load_concurrency` loads at a time, each at most `load_timeout` seconds; a look every `interval` seconds."""

    load_concurrency: int
    load_timeout: float
    interval: float = 1.0
    unload_timeout: float = 60.0


class Copies:
    """Loads and unloads on the instance called `instance`.

    `warm_up` prepares the copies that are not missed already.
    """

    def __init__(
        self,
        instance: str,
        repository: ModelRepository,
        listener: CopyListener,
        executor: Executor,
        limits: InstanceLimits,
        warm_up: WarmUp,
        deliver: Deliver = already_there,
    ) -> None:
        self.loaded: set[str] = set()
        self.server: TritonInstance | None = None
        """The server to talk to, None while there is none."""
        self._down = "not looked at yet"
        self._fell = asyncio.Event()
        self.stuck = StuckLoads(instance)
        self.removed: set[str] = set()
        """Names whose directory was taken out of the repository."""
        self.found: set[str] = set()
        """Names that served already when the server came up, and that nobody touched since then."""
        self._instance = instance
        self._repository = repository
        self._listener = listener
        self._executor = executor
        self._limits = limits
        self._warm_up = warm_up
        self._deliver = deliver
        self._slots = asyncio.Semaphore(limits.load_concurrency)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def down(self) -> str:
        """Why the server takes no loads, empty when it does. Loads in flight end when it goes down."""
        return self._down

    @down.setter
    def down(self, reason: str) -> None:
        self._down = reason
        if reason:
            self._fell.set()
            self._fell = asyncio.Event()

    def busy(self, name: str) -> bool:
        """Whether somebody loads, unloads or resets this copy now."""
        lock = self._locks.get(name)
        return lock is not None and lock.locked()

    def lose(self, names: Collection[str], reason: str) -> None:
        """These copies serve no more."""
        if not names:
            return
        self.loaded.difference_update(names)
        for name in names:
            self._listener.copy_lost(self._instance, name, reason)
        self._listener.copies_changed(names)

    async def load(self, servable: Placeable, *, warm_up: bool = True) -> None:
        """Put `servable` there. Raises LoadFailure.

        What waits for a load of the same name, or for one that Triton does not finish, keeps no other from its turn.
        """
        async with self._lock(servable.triton_name):
            self.stuck.refuse(servable.triton_name)
            async with self._slots:
                await self._load(servable, warm_up)

    async def unload(self, name: str) -> bool:
        """Take a copy off the instance and out of its repository; whether Triton let go of it.

        Raises OSError where the directory has to stay.

        Whatever Triton says, the directory goes after `unload_timeout` seconds: what runs needs it no more.
        """
        async with self._lock(name):
            self.loaded.discard(name)
            self.found.discard(name)
            gone = self.server is None or await self._let_go(name, self.server)
            await self._in_thread(self._repository.remove, name)
            self.removed.add(name)
            return gone

    async def reset(self, name: str) -> None:
        """A dead runner is never restarted by Triton and a load is a no-op: only unload and load help."""
        async with self._lock(name):
            self.found.discard(name)
            try:
                if self.server is not None:
                    await self.server.abandon(name)
            except BridgeError as error:
                logger.warning("unloading the dead %s from instance %s failed: %s", name, self._instance, error)

    async def _load(self, servable: Placeable, warm_up: bool) -> None:
        name, server = servable.triton_name, self._require()
        changed = await self._write(servable)
        await self._deliver(name, self._limits.load_timeout)
        if changed or name not in self.found:
            with self.stuck.loading(name):
                await self._while_up(server.load(name, self._limits.load_timeout))
            if warm_up and isinstance(servable, Servable):
                await self._warmed_up(servable, server)
        self.found.discard(name)
        if server is self.server:
            self.loaded.add(name)
            self._listener.copy_loaded(self._instance, servable)
            self._listener.copies_changed((name,))

    async def _while_up(self, load: Coroutine[Any, Any, None]) -> None:
        """A server behind a dead line would keep a load, and the instances that could take it, until its deadline."""
        loading, fell = asyncio.ensure_future(load), asyncio.ensure_future(self._fell.wait())
        try:
            await asyncio.wait((loading, fell), return_when=asyncio.FIRST_COMPLETED)
            if not loading.done():
                sentence = f"Triton {self._instance} went down during the load: {self.down}"
                raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, sentence)
            loading.result()
        finally:
            loading.cancel()
            fell.cancel()

    def _require(self) -> TritonInstance:
        if self.server is None or self.down:
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, f"Triton {self._instance} is down: {self.down}")
        return self.server

    async def _warmed_up(self, servable: Servable, server: TritonInstance) -> None:
        """Warm a copy up, or take it off again."""
        try:
            await self._warm_up(servable, server.infer, self._limits.load_timeout)
        except BridgeError as error:
            await self._let_go(servable.triton_name, server)
            raise _warm_up_failure(error) from error

    async def _write(self, servable: Placeable) -> bool:
        source, seconds = servable.source, self._limits.load_timeout
        self.removed.discard(servable.triton_name)
        try:
            async with asyncio.timeout(seconds):
                return bool(await self._in_thread(servable.write, self._repository))
        except TimeoutError as error:
            sentence = f"the repository did not take {source} within {seconds:g} s"
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, sentence) from error
        except (OSError, TransferError) as error:
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, f"cannot fill the repository: {error}") from error
        except ConfigError as error:
            raise LoadFailure(FailureKind.MODEL, Code.INTERNAL, str(error)) from error

    async def _let_go(self, name: str, server: TritonInstance) -> bool:
        try:
            await server.unload(name, self._limits.unload_timeout)
        except BridgeError as error:
            logger.warning("instance %s did not let go of %s: %s", self._instance, name, error)
            return False
        return True

    def _lock(self, name: str) -> asyncio.Lock:
        """The lock of a name, which lives while somebody holds it or waits for it."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)


def _warm_up_failure(error: BridgeError) -> LoadFailure:
    """A request that the model refuses is a fault of the version; that of a platform says nothing of it."""
    refused = not isinstance(error, CallError) or error.fault is Fault.MODEL
    return LoadFailure(FailureKind.MODEL if refused else FailureKind.PLATFORM, error.code, error.message)
