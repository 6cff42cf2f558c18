"""The manager with its transitions over a real registry, on instances that only count bytes and a clock that runs fast.

No Triton is involved: what is tested here is when models are loaded and vmodels move.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridge.errors import Code
from bridge.lifecycle.recorder import Recorder
from bridge.modelmesh.catalog import ModelCatalog
from bridge.modelmesh.ledger import Ledger
from bridge.modelmesh.manager import ModelMeshManager, VModelState, VModelStatus
from bridge.modelmesh.registration import Registration
from bridge.modelmesh.transitions import Transitions
from bridge.modelmesh.vmodels import VModels
from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import Status
from bridge.placement.placement import Placement
from bridge.placement.settings import PlacementSettings
from bridge.registry import Registry, schema
from bridge.registry.database import sqlite_url
from bridge.registry.records import Actor, ModelInfo, RegisteredModel, SetVModel
from bridge.registry.thread import RegistryThread
from tests.placement.fakes import MIB, FakeClock, FakeInstance, FakeRouter
from tests.placement.fakes import Recorder as Observer

ACTOR = Actor("test", "RPC")
INFO = ModelInfo("tensorflow", "p")
STEP_MS = 20
LONGEST = 20.0


class Mesh:
    """Instances `a`, `b`, …, each with room for ten models."""

    def __init__(self, url: str, instances: int, settings: PlacementSettings | None = None) -> None:
        self.clock = FakeClock()
        self._skip = 0
        self.registry = Registry.open(url)
        self._thread = RegistryThread()
        self._executor = ThreadPoolExecutor(1)
        self._recorder = Recorder(self._thread.call)
        self.catalog = ModelCatalog(self.registry, self._recorder, self._enroll, self.clock)
        self.vmodels = VModels()
        settings = settings or PlacementSettings(default_size=50 * MIB, second_copies=False)
        self.placement = Placement(self.catalog, FakeRouter(), Observer(), self.clock, settings)
        self.instances = [FakeInstance(self.clock, name, 600 * MIB) for name in "abcdef"[:instances]]
        self.ledger = Ledger(
            self.registry,
            self._thread,
            self.catalog,
            self.vmodels,
            self.placement,
            registered=lambda id: None,
            removed=self.placement.remove,
        )
        self.transitions = Transitions(self.ledger, self.catalog, self.vmodels, self.placement)
        self.manager = ModelMeshManager(self.ledger, self.catalog, self.vmodels, self.placement, self.clock)
        self._tasks = [asyncio.create_task(self._recorder.run()), asyncio.create_task(self._run_clock())]

    async def start(self) -> None:
        await self.ledger.read()
        for instance in self.instances:
            self.placement.add_instance(instance)
        self.transitions.start()

    async def close(self) -> None:
        await self.transitions.close()
        await self.placement.close()
        await self._recorder.flush(5)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.close()
        self._executor.shutdown()
        self.registry.close()

    def break_model(self, id: str) -> None:
        for instance in self.instances:
            instance.failing[id] = PlacementLoadError(Code.INTERNAL, f"{id} is broken")

    def mend(self, id: str) -> None:
        for instance in self.instances:
            instance.failing.pop(id, None)

    async def register(self, id: str, *, load: bool = True) -> Status:
        status = await self.manager.register_model(id, INFO, ACTOR, load_now=load, sync=True, last_used=0)
        return status.status

    async def set(self, id: str, target: str, *, sync: bool = True, force: bool = False) -> VModelStatus:
        """setVModel with a target that comes and goes with the vmodel."""
        wanted = SetVModel(id, target, INFO, auto_delete=True, force=force)
        return await self.manager.set_vmodel(wanted, ACTOR, sync=sync)

    def look(self, id: str) -> tuple[VModelState, str, str]:
        status = self.manager.vmodel_status(id, "")
        return status.state, status.active, status.target

    async def pass_time(self, milliseconds: int) -> None:
        """Let so much time pass at once."""
        end = self.clock.now() + milliseconds
        self._skip += milliseconds
        await self.until(lambda: self.clock.now() >= end)

    async def until(self, what: Callable[[], bool]) -> None:
        """Wait for a state."""
        async with asyncio.timeout(LONGEST):
            while not what():  # noqa: ASYNC110 - many things change it
                await asyncio.sleep(0.001)

    def actions(self, id: str) -> list[str]:
        return [event.action for event in self.registry.events(f"vmodel:{id}")]

    def _enroll(self, model: RegisteredModel) -> Registration:
        def refuse(*arguments: object) -> None:
            raise AssertionError("these instances read no files")

        return Registration(model, "00000000", refuse, self._executor)  # type: ignore[arg-type]

    async def _run_clock(self) -> None:
        while True:
            skip, self._skip = self._skip, 0
            await self.clock.advance(STEP_MS + skip)
            await asyncio.sleep(0.0005)


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    return url


@pytest.fixture
async def make_mesh(url: str) -> AsyncIterator[Callable[..., Mesh]]:
    """Makes meshes on one registry; several at a time stand for several lives of a server."""
    made: list[Mesh] = []

    def make(instances: int = 2, settings: PlacementSettings | None = None) -> Mesh:
        made.append(Mesh(url, instances, settings))
        return made[-1]

    yield make
    for mesh in made:
        await mesh.close()
