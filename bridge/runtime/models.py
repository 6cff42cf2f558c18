"""The models that a ModelMesh has loaded here: one change at a time for each id, whatever becomes of the caller."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from bridge.errors import BridgeError, Code, NotFound, Unavailable
from bridge.lifecycle.instance import InstanceController
from bridge.lifecycle.servable import Placeable
from bridge.modelmesh.registration import Registration
from bridge.registry.records import ModelInfo, RegisteredModel
from bridge.runtime.plane import RuntimePlane
from bridge.serving.routes import RegisteredRoute
from model_repo_sync import model_types, names

logger = logging.getLogger(__name__)

T = TypeVar("T")

Enroll = Callable[[RegisteredModel], Registration]

IN_MEMORY = ("LOADING", "READY", "UNLOADING")


@dataclass
class _Hosted:
    """A model on Triton, whose `files` are kept for it; `leaving` from the begin of its unload on."""

    info: ModelInfo
    servable: Placeable
    files: AsyncExitStack
    leaving: bool = False


class _Attempt:
    """A load, which goes on although its caller left, to be undone then."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.abandoned = False

    def require_caller(self) -> None:
        if self.abandoned:
            raise BridgeError(f"The load of model {self.id} was given up by its caller.", Code.CANCELLED)


class HostedModels:
    """Models on the one instance `controller` of `plane`.

    Triton can end no load, so one whose caller left is undone when it ends; a change of the same model waits for that.
    `default_size` is the size in bytes of a model of which nothing is known, `drain_seconds` how long an unload waits
    for requests in flight here.
    """

    def __init__(
        self,
        plane: RuntimePlane,
        controller: InstanceController,
        enroll: Enroll,
        deployment: str,
        *,
        default_size: int,
        drain_seconds: float,
    ) -> None:
        self._plane = plane
        self._controller = controller
        self._enroll = enroll
        self._deployment = deployment
        self._default_size = default_size
        self._drain_seconds = drain_seconds
        self._hosted: dict[str, _Hosted] = {}
        self._attempts: set[_Attempt] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._generation = 0

    def routes(self) -> Mapping[str, RegisteredRoute]:
        """What the request path may use, by id."""
        return {id: self._route(id, hosted) for id, hosted in self._hosted.items() if not hosted.leaving}

    def predicted_size(self, info: ModelInfo) -> int:
        """A guess in bytes, made without a look at the files."""
        return max(self._default_size, model_types.predicted_size(info))

    async def load(self, id: str, info: ModelInfo) -> int:
        """Load a model; the bytes that it takes. Loaded already it stays, unless it was loaded from something else.

        Raises BridgeError. A load whose caller leaves is undone before the next change of `id` begins.
        """
        attempt = _Attempt(id)
        self._attempts.add(attempt)
        try:
            return await self._shielded(self._load(attempt, info), f"load of model {id}")
        except asyncio.CancelledError:
            attempt.abandoned = True
            raise

    async def unload(self, id: str) -> None:
        """Return when Triton holds nothing of the model, which it may never have known. Raises BridgeError."""
        await self._shielded(self._unload(id), f"unload of model {id}")

    async def size(self, id: str) -> int:
        """The bytes that a loaded model takes. Raises NotFound."""
        hosted = self._hosted.get(id)
        if hosted is None or hosted.leaving:
            raise NotFound(f"Model {id} is not loaded.")
        return await self._size(hosted)

    async def purge(self) -> None:
        """Take off everything of this deployment, also what a process before this one left. Raises BridgeError."""
        for attempt in self._attempts:
            attempt.abandoned = True
        ids = {*self._hosted, *(attempt.id for attempt in self._attempts)}
        await asyncio.gather(*(self.unload(id) for id in ids))
        for name, state in (await self._owned()).items():
            await self._controller.unload(name)
            await self._require_gone(name, was_serving=state == "READY")

    async def close(self) -> None:
        """End all work; nothing is unloaded."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _load(self, attempt: _Attempt, info: ModelInfo) -> int:
        try:
            async with self._lock(attempt.id):
                hosted = self._hosted.get(attempt.id)
                if hosted is not None and (hosted.leaving or hosted.info != info):
                    await self._remove(attempt.id, hosted)
                    hosted = None
                return await self._size(hosted or await self._place(attempt, info))
        finally:
            self._attempts.discard(attempt)

    async def _place(self, attempt: _Attempt, info: ModelInfo) -> _Hosted:
        attempt.require_caller()
        async with AsyncExitStack() as files:
            servable = await files.enter_async_context(self._enroll(self._registered(attempt.id, info)).prepared())
            attempt.require_caller()
            await self._put(attempt, servable)
            hosted = self._hosted[attempt.id] = _Hosted(info, servable, files.pop_all())
        self._plane.fleet.pin(servable)
        self._plane.publisher.publish()
        return hosted

    async def _put(self, attempt: _Attempt, servable: Placeable) -> None:
        try:
            await self._plane.fleet.load_first(servable)
            attempt.require_caller()
        except BridgeError:
            await self._plane.fleet.unload(servable)
            raise

    def _registered(self, id: str, info: ModelInfo) -> RegisteredModel:
        """Each load has a generation of its own, so that it never meets what an earlier one left."""
        now = time.time_ns() // 1000
        self._generation = max(self._generation + 1, now)
        return RegisteredModel(id, info, False, self._generation, last_used_at=now, created_at=now)

    async def _unload(self, id: str) -> None:
        async with self._lock(id):
            hosted = self._hosted.get(id)
            if hosted is not None:
                await self._remove(id, hosted)

    async def _remove(self, id: str, hosted: _Hosted) -> None:
        name = hosted.servable.triton_name
        serving = name in self._controller.loaded
        hosted.leaving = True
        await self._drained()
        await self._plane.fleet.unload(hosted.servable)
        await self._require_gone(name, was_serving=serving)
        del self._hosted[id]
        await hosted.files.aclose()

    async def _drained(self) -> None:
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self._plane.leases.wait_drained(self._plane.publisher.publish())
        except TimeoutError:
            logger.warning("requests in flight did not end within %g s of their model's unload", self._drain_seconds)

    async def _require_gone(self, name: str, *, was_serving: bool) -> None:
        """Raises Unavailable while Triton holds the copy: its memory is not free.

        What is UNLOADING without having served is the remains of a dead runner, which Triton may keep for ever.
        """
        state = (await self._owned()).get(name, "")
        if state in IN_MEMORY and (was_serving or state != "UNLOADING"):
            raise Unavailable(f"Triton still has {name} in state {state}.")

    async def _owned(self) -> Mapping[str, str]:
        """The states of this deployment's models in Triton's index, by name; nothing while there is no Triton."""
        server = self._controller.server
        if server is None:
            return {}
        index = await server.index()
        return {name: entry.state for name, entry in index.items() if names.owned_by(name, self._deployment)}

    async def _size(self, hosted: _Hosted) -> int:
        try:
            runner = await self._controller.describe(hosted.servable.triton_name)
        except BridgeError as error:
            logger.info("nobody says what memory %s takes: %s", hosted.servable, error.message)
            return self.predicted_size(hosted.info)
        return runner.device_bytes or runner.memory_bytes or self.predicted_size(hosted.info)

    def _route(self, id: str, hosted: _Hosted) -> RegisteredRoute:
        instances = self._plane.fleet.instances_with(hosted.servable.triton_name)
        return RegisteredRoute.of(id, hosted.servable.route(instances) if instances else None)

    def _lock(self, id: str) -> asyncio.Lock:
        """The lock of an id, which lives while somebody holds it or waits for it."""
        lock = self._locks.get(id)
        if lock is None:
            lock = self._locks[id] = asyncio.Lock()
        return lock

    async def _shielded(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Run `work` to its end, also where the caller is cancelled."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("%s: %s", task.get_name(), error)
