"""A double of one Triton instance, for what depends on time: its loads and unloads end when a test says so."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from bridge.errors import BridgeError, Code, DeadlineExceeded, Unavailable
from bridge.lifecycle.copies import InstanceLimits
from bridge.lifecycle.instance import InstanceController, Wanted
from bridge.lifecycle.servable import Servable, preparer
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from bridge.triton.instance import FailureKind, IndexEntry, LoadFailure, RunnerInfo
from model_repo_sync.repository import ModelRepository
from model_repo_sync.triton_config import RunnerOptions
from tests.model_repo_sync.builders import write

DEPLOYMENT = "0123abcd"


class ScriptedTriton:
    """Loads at once, unless the model is in `held`: then a test says when. `refused` models fail, `stuck` ones never
    unload.

    The runners of `dead` models do not answer, and `down` is what every call fails with.
    """

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.held: set[str] = set()
        self.stuck: set[str] = set()
        self.dead: set[str] = set()
        self.refused: set[str] = set()
        self.down: BridgeError | None = None
        self.closed = False
        self.memory_bytes = self.device_bytes = 0
        self.calls: list[tuple[str, str]] = []
        self._outcomes: defaultdict[str, asyncio.Future[LoadFailure | None]] = defaultdict(asyncio.Future)

    def finish(self, name: str) -> None:
        """Let a held load end well."""
        self.held.discard(name)
        self.states[name] = "READY"
        self._outcomes.pop(name).set_result(None)

    def expire(self, name: str) -> None:
        """Let the deadline of a held load pass; the model stays LOADING."""
        failure = LoadFailure(FailureKind.PLATFORM, Code.DEADLINE_EXCEEDED, f"{name} was not loaded in time")
        self._outcomes.pop(name).set_result(failure)

    def count(self, call: str, name: str) -> int:
        return self.calls.count((call, name))

    async def index(self) -> Mapping[str, IndexEntry]:
        self._answer("index", "")
        return {name: IndexEntry(state, "") for name, state in self.states.items()}

    async def load(self, name: str, timeout: float) -> None:
        self._answer("load", name)
        if name in self.refused:
            raise LoadFailure(FailureKind.MODEL, Code.INVALID_ARGUMENT, "refused")
        if name in self.held:
            self.states[name] = "LOADING"
            if (failure := await self._outcomes[name]) is not None:
                raise failure
        self.states[name] = "READY"
        self.dead.discard(name)

    async def unload(self, name: str, timeout: float) -> None:
        self._answer("unload", name)
        if name in self.stuck:
            self.states[name] = "UNLOADING"
            await asyncio.sleep(timeout)
            raise DeadlineExceeded(f"{name} is UNLOADING")
        self.states[name] = "UNAVAILABLE"

    async def abandon(self, name: str, timeout: float = 5.0) -> None:
        self._answer("abandon", name)
        self.states[name] = "UNAVAILABLE"

    async def ping(self, name: str, timeout: float) -> RunnerInfo:
        self._answer("ping", name)
        if name in self.dead:
            raise CallError("Stub process is not healthy.", Code.INTERNAL, Fault.RUNNER)
        return RunnerInfo("1", "2.21.0", 4711, memory_bytes=self.memory_bytes, device_bytes=self.device_bytes)

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        self._answer("infer", call.model)
        return []

    async def close(self) -> None:
        self.closed = True

    def _answer(self, call: str, name: str) -> None:
        self.calls.append((call, name))
        if self.down is not None:
            raise self.down


class News:
    """Hears what controllers tell."""

    def __init__(self) -> None:
        self.lost: list[tuple[str, str, str]] = []
        self.loaded: list[tuple[str, str]] = []
        self.instances: list[tuple[str, bool, str]] = []

    def copies_changed(self, triton_names: Collection[str]) -> None: ...

    def copy_loaded(self, instance: str, servable: Servable) -> None:
        self.loaded.append((instance, servable.triton_name))

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None:
        self.lost.append((instance, triton_name, reason))

    def instance_changed(self, instance: str, up: bool, reason: str) -> None:
        self.instances.append((instance, up, reason))


class Process:
    """Stands in for the embedded Triton's process."""

    def __init__(self, *runners: str) -> None:
        self.alive = set(runners)
        self.restarts: list[str] = []

    def runners(self) -> Collection[str]:
        return self.alive

    def restart(self, reason: str) -> None:
        self.restarts.append(reason)


async def fit(instance: object) -> None:
    """Every instance is."""


def unavailable(text: str = "connection refused") -> Unavailable:
    return Unavailable(text)


def servable(directory: Path, model: str, version: int = 1) -> Servable:
    """A version that lies below `directory`."""
    source = directory / model / str(version)
    if not source.exists():
        write(source)
    return preparer(DEPLOYMENT, RunnerOptions())(model, version, str(source))


def controller(
    name: str, directory: Path, wanted: Wanted, news: Any, executor: Executor, **limits: Any
) -> tuple[InstanceController, ScriptedTriton]:
    """An attached instance whose repository is `directory`."""
    bounds = InstanceLimits(**{"load_concurrency": 1, "load_timeout": 5.0, "unload_timeout": 0.05, **limits})
    repository = ModelRepository(directory, DEPLOYMENT)
    found = InstanceController(name, repository, wanted, news, executor, bounds, fit)
    triton = ScriptedTriton()
    found.attach(triton, InstanceRoute(name, grpc="127.0.0.1:1", http=""))  # type: ignore[arg-type]
    return found, triton
