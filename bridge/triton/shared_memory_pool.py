"""The shared memory regions between this process and one Triton, each lent to one call at a time."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bridge.triton.calls import CallError, Fault
from bridge.triton.shared_memory_names import Owner
from bridge.triton.shared_memory_region import DIRECTORY, SMALLEST, Allowance, Region, rounded

logger = logging.getLogger(__name__)

IDLE_SECONDS = 2.0
"""A region that nobody used for so long goes back to the system."""
LARGE = 8 << 20
"""Bytes whose pages are taken, or that are copied, in a thread, so that other requests go on."""
TRY_AGAIN = 1.0
"""Seconds until a Triton that could not be reached is asked again; also between tries to unregister a region."""
REFUSED = 60.0
"""Seconds until a Triton is asked again whether it shares memory with the bridge by now."""
SETTLE_SECONDS = 5.0
"""How long one question about regions may take."""

_IN_USE = "currently in use"


class Registers(Protocol):
    """Triton's register of regions, as `Registrar` has it."""

    async def register(self, name: str, size: int, deadline: float) -> None: ...

    async def unregister(self, name: str, deadline: float) -> None: ...

    async def names(self, deadline: float) -> list[str]: ...


class Lease:
    """A region that one call has. It ends by `release` or `discard`, one of them."""

    def __init__(self, region: Region, pool: RegionPool) -> None:
        self.name = region.name
        self._region = region
        self._pool = pool
        self._bytes = region.bytes()

    async def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Copy `data` to `offset`."""
        given = np.frombuffer(data, np.uint8)
        place = self._bytes[offset : offset + len(given)]
        if len(given) < LARGE:
            np.copyto(place, given)
        else:
            await asyncio.to_thread(np.copyto, place, given)

    def view(self) -> memoryview:
        """All of the region. What is cut from it keeps the region from being lent again as long as it lives."""
        return self._bytes.data.toreadonly()

    def release(self) -> None:
        """Triton is done with the region: it is lent again once nobody has a view of it any more."""
        whole, self._bytes = self._bytes, np.empty(0, np.uint8)
        weakref.finalize(whole, self._pool.seen_off, self._region).atexit = False

    def discard(self) -> None:
        """Triton may still read or write the region: it is never lent again."""
        self._pool.discard(self._region)


class RegionPool:
    """Makes regions as calls need them, within `allowance`, and gives them back when they idle.

    That Triton can map a file with a name that nobody can guess is the proof that both see one /dev/shm. Used on one
    event loop, on which views may end in other threads.
    """

    def __init__(
        self,
        registrar: Registers,
        owner: Owner,
        allowance: Allowance,
        *,
        label: str = "",
        idle_seconds: float = IDLE_SECONDS,
        directory: Path = DIRECTORY,
    ) -> None:
        self._registrar = registrar
        self._owner = owner
        self._allowance = allowance
        self._label = label
        self._idle_seconds = idle_seconds
        self._directory = directory
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._regions: dict[str, Region] = {}
        self._idle: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._resting_until = 0.0
        self._proof: asyncio.Task[None] | None = None
        self._shared: bool | None = None
        self._leaving: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def resting(self) -> bool:
        """Whether there is no use in asking for regions now."""
        return self._closed or self._loop.time() < self._resting_until

    def rest(self, seconds: float = REFUSED) -> None:
        """Lend nothing for some time."""
        self._resting_until = self._loop.time() + seconds

    async def lease(self, size: int, deadline: float) -> Lease | None:
        """A region of at least `size` bytes, None where there is none to be had."""
        if not self._shared:
            await self._prove(deadline)
        if self.resting or not self._shared:
            return None
        region = self._take(size) or await self._make(rounded(size), deadline)
        return Lease(region, self) if region is not None else None

    def forget(self) -> None:
        """Triton was started anew and knows none of the regions."""
        for name in tuple(self._idle):
            self._drop(self._regions[name])
        for region in tuple(self._regions.values()):
            self._drop(region)

    def discard(self, region: Region) -> None:
        """Take `region` away from Triton as soon as no request uses it."""
        if self._regions.pop(region.name, None) is None:
            return
        self._idle.pop(region.name, None)
        self._spawn(self._settle(region.name, region.size))

    def seen_off(self, region: Region) -> None:
        """Nobody looks at `region` any more."""
        # Never at once: views end in the middle of anything, this pool's own loops included.
        if threading.get_ident() == self._thread and not self._loop.is_closed():
            self._loop.call_soon(self._returned, region)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._returned, region)

    async def close(self) -> None:
        """Unregister everything that is registered."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        names, deadline = [*self._regions, *self._leaving], self._loop.time() + TRY_AGAIN
        await asyncio.gather(*(self._registrar.unregister(name, deadline) for name in names), return_exceptions=True)
        self.forget()

    # making

    async def _prove(self, deadline: float) -> None:
        if self.resting:
            return
        if self._proof is None or self._proof.done():
            self._proof = self._spawn(self._look())
        await asyncio.wait([self._proof], timeout=deadline - self._loop.time())

    async def _look(self) -> None:
        """Have Triton forget the regions of dead processes, then see whether it can map one."""
        deadline = self._loop.time() + SETTLE_SECONDS
        try:
            for name in await self._registrar.names(deadline):
                if self._owner.outlived(name):
                    self._spawn(self._settle(name))
        except (CallError, ValueError) as error:
            logger.debug("Left regions of shared memory at %s: %s", self._label, error)
        region = await self._make(SMALLEST, deadline)
        if region is not None:
            self._returned(region)

    async def _make(self, size: int, deadline: float) -> Region | None:
        if not self._allowance.take(size):
            for name in tuple(self._idle):
                self.discard(self._regions[name])
            return None
        try:
            region = Region(self._owner.region_name(), size, self._directory)
        except OSError as error:
            self._allowance.give_back(size)
            self._missed(size, error)
            return None
        self._regions[region.name] = region
        if not await self._register(region, deadline):
            return None
        try:
            await asyncio.to_thread(region.reserve) if size >= LARGE else region.reserve()
        except OSError as error:
            self.discard(region)
            self._missed(size, error)
            return None
        except asyncio.CancelledError:
            self.discard(region)
            raise
        return region

    def _missed(self, size: int, error: OSError) -> None:
        logger.warning("No shared memory of %d bytes for %s: %s", size, self._label, error.strerror)
        self.rest()

    async def _register(self, region: Region, deadline: float) -> bool:
        try:
            await self._registrar.register(region.name, region.size, deadline)
        except CallError as error:
            unclear = error.fault is Fault.CONNECTION and error.sent
            region.end()
            self.discard(region) if unclear else self._drop(region)
            self.rest(TRY_AGAIN if error.fault is Fault.CONNECTION else REFUSED)
            self._tell(shared=False, reason=error.message)
            return False
        except BaseException:
            region.end()
            self.discard(region)
            raise
        finally:
            region.unlink()
        self._tell(shared=True)
        return True

    def _tell(self, shared: bool, reason: str = "") -> None:
        if shared is not self._shared:
            self._shared = shared
            if shared:
                logger.info("Large tensors travel between the bridge and %s in shared memory", self._label)
            else:
                logger.info("%s shares no memory with the bridge: %s", self._label, reason)

    # lending

    def _take(self, size: int) -> Region | None:
        """The smallest idle region that fits, unless most of it would be of no use."""
        fitting = [self._regions[name] for name in self._idle if size <= self._regions[name].size <= 2 * rounded(size)]
        if not fitting:
            return None
        region = min(fitting, key=_size)
        del self._idle[region.name]
        return region

    def _returned(self, region: Region) -> None:
        if region.name in self._regions:
            self._idle[region.name] = self._loop.time()
            self._look_after_idle(self._idle_seconds)

    def _look_after_idle(self, seconds: float) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(seconds, self._end_idle)

    def _end_idle(self) -> None:
        self._timer = None
        end = self._loop.time() - self._idle_seconds
        for name, since in tuple(self._idle.items()):
            if since <= end:
                self.discard(self._regions[name])
        if self._idle:
            self._look_after_idle(min(self._idle.values()) - end)

    def _drop(self, region: Region) -> None:
        """`region` is no longer known to Triton. Views of it stay valid."""
        if self._regions.pop(region.name, None) is not None:
            self._idle.pop(region.name, None)
            self._allowance.give_back(region.size)

    async def _settle(self, name: str, size: int = 0) -> None:
        """Unregister `name`; give `size` bytes back then."""
        self._leaving.add(name)
        try:
            # Triton tells nobody when a request ends.
            while not await self._is_unregistered(name):  # noqa: ASYNC110
                await asyncio.sleep(TRY_AGAIN)
            self._leaving.discard(name)
        finally:
            self._allowance.give_back(size)

    async def _is_unregistered(self, name: str) -> bool:
        """Whether Triton let go of a region; a Triton that cannot be reached has."""
        try:
            await self._registrar.unregister(name, self._loop.time() + SETTLE_SECONDS)
        except CallError as error:
            return _IN_USE not in error.message and not (error.fault is Fault.CONNECTION and error.sent)
        return True

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _size(region: Region) -> int:
    return region.size
