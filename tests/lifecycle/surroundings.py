"""A control plane reduced to what a model's manager sees. It stands in for Triton: loads end when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from bridge.errors import BridgeError, Code
from bridge.lifecycle.loader import Wish
from bridge.lifecycle.model import ModelManager
from bridge.lifecycle.servable import Servable
from bridge.lifecycle.transition import Rule, availability_preserving
from bridge.serving.routes import VersionState, VersionStatus
from model_repo_sync.saved_model import SavedModel
from model_repo_sync.sources import VersionDirectory


def servable(model: str, version: int) -> Servable:
    saved_model = SavedModel(
        path=f"/models/{model}/{version}",
        tags=("serve",),
        tensorflow_version="2.21.0",
        signatures={},
        signature_def_map=b"",
        stateful=False,
        warnings=(),
        fingerprint=str(version),
    )
    return Servable(model, version, f"tfs.00000000.{model}.{version}", saved_model, "")


class FakeSurroundings:
    """Records what the manager asks for. `finish` and `fail` end the load of a version, `let_go` an unload."""

    def __init__(self, rule: Rule = availability_preserving) -> None:
        self.loads: dict[int, asyncio.Future[Servable]] = {}
        self.unloads: dict[int, asyncio.Future[None]] = {}
        self.wishes: dict[int, Wish] = {}
        self.history: list[tuple[int, VersionState]] = []
        self.pinned: set[int] = set()
        self.vanished: set[int] = set()
        self.epoch = 0
        self.manager = ModelManager("m", self, rule=rule)
        self._tasks: set[asyncio.Task[None]] = set()

    async def reserve(self, model: str, version: int, path: str) -> None:
        if version in self.vanished:
            raise BridgeError(f"{path} vanished", Code.NOT_FOUND)

    async def load(self, model: str, version: int, path: str, wish: Wish) -> Servable:
        self.loads[version] = asyncio.get_running_loop().create_future()
        self.wishes[version] = wish
        try:
            return await self.loads[version]
        finally:
            del self.loads[version]

    def serve(self, servable: Servable) -> None:
        self.pinned.add(servable.version)

    async def retire(self, servable: Servable, epoch: int) -> None:
        self.unloads[servable.version] = asyncio.get_running_loop().create_future()
        await self.unloads[servable.version]
        del self.unloads[servable.version]
        self.pinned.discard(servable.version)

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        return ("triton",)

    def publish(self) -> int:
        self.epoch += 1
        return self.epoch

    def publish_soon(self) -> None:
        self.epoch += 1

    def observed(self, model: str, status: VersionStatus, path: str, servable: Servable | None) -> None:
        self.history.append((status.version, status.state))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What a test does

    def aspire(self, *versions: int) -> None:
        self.manager.aspire([VersionDirectory(version, f"/models/m/{version}") for version in versions])

    async def turn(self) -> None:
        """Let every task run until it waits."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def finish(self, version: int) -> None:
        await self.turn()
        self.loads[version].set_result(servable("m", version))
        await self.turn()

    async def fail(self, version: int, error: BridgeError) -> None:
        await self.turn()
        self.loads[version].set_exception(error)
        await self.turn()

    async def let_go(self, version: int) -> None:
        await self.turn()
        future = self.unloads[version]
        future.set_result(None)
        await self.turn()

    def states(self) -> dict[int, str]:
        return {status.version: status.state.name for status in self.manager.route().statuses}

    def serving(self) -> list[int]:
        return sorted(self.manager.route().servables)
