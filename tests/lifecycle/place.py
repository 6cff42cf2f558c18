"""The lifecycle as a whole, from configurations to loads, on a real registry and a double of Triton."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridge.clock import SystemClock
from bridge.errors import Unavailable
from bridge.lifecycle import source_config
from bridge.lifecycle.configurator import Configurator
from bridge.lifecycle.content_watch import ContentWatch
from bridge.lifecycle.contents import Contents
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.label_rollback import LabelRollbacks
from bridge.lifecycle.leases import RouterLeases
from bridge.lifecycle.live import LiveTracker
from bridge.lifecycle.loader import Loader
from bridge.lifecycle.model_rollback import ModelRollbacks
from bridge.lifecycle.observations import Observations
from bridge.lifecycle.operations import Operations
from bridge.lifecycle.recorder import Recorder
from bridge.lifecycle.rollback import Rollback
from bridge.lifecycle.rollback_contents import RollbackContents
from bridge.lifecycle.rollback_plan import RollbackKind
from bridge.lifecycle.servable import preparer
from bridge.registry import schema
from bridge.registry.database import sqlite_url
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import InstanceRoute
from bridge.settings import Settings
from model_repo_sync import names
from model_repo_sync.content import ContentReader
from model_repo_sync.kept import KeptContents
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig
from model_repo_sync.protos.text import from_text
from model_repo_sync.source_cache import TemporaryCache
from model_repo_sync.transfer import TransferMode
from model_repo_sync.triton_config import RunnerOptions
from tests.lifecycle.scripted_triton import DEPLOYMENT, ScriptedTriton, controller
from tests.model_repo_sync.builders import write
from tests.support.model_config import Entry


class FlakyThread(RegistryThread):
    """The registry's thread; the functions named in `away` fail as if the database were away, so many times each."""

    def __init__(self) -> None:
        super().__init__()
        self.away: dict[str, int] = {}

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        left = self.away.get(function.__name__, 0)
        if left:
            self.away[function.__name__] = left - 1
            raise Unavailable("the database is away")
        return await super().call(function, *args, **kwargs)


class Place:
    """`models` holds the base paths. Base paths are looked at ten times a second."""

    def __init__(self, directory: Path, settings: Settings, registry: Registry, executor: ThreadPoolExecutor) -> None:
        self.models = directory / "models"
        self.registry = registry
        self.thread = FlakyThread()
        self.recorder = Recorder(self.thread.call)
        observations = Observations(registry, self.recorder)
        downloads = Downloads(TemporaryCache(), executor)

        def loader(fleet: Fleet) -> Loader:
            return Loader(
                preparer(DEPLOYMENT, RunnerOptions()),
                fleet,
                executor,
                max_retries=settings.max_num_load_retries,
                retry_interval=settings.load_retry_interval,
                downloads=downloads,
                on_trouble=observations.trouble,
                on_attempt=lambda path, success, seconds: None,
            )

        rules = source_config.rules(settings)
        leases = RouterLeases(1.0)
        self.plane = ControlPlane(DEPLOYMENT, Fleet(), loader, leases, observations, rules, executor, downloads)
        self.triton = self._instance(directory, executor)
        observations.instance_placed(InstanceRoute("one", grpc="127.0.0.1:1", http=""), "test")
        self.configurator = Configurator(settings, registry, self.thread, self.plane)
        self.kept = KeptContents(directory / "kept", TransferMode.AUTO)
        self.operations = Operations(
            registry, self.thread, self.plane, self._rollback(self._contents(settings, executor), downloads)
        )
        self.plane.publisher.subscribe(LiveTracker(registry, self.recorder).follow)

    def export(self, model: str, *versions: int) -> Path:
        """The base path of `model`, with these versions."""
        for version in versions:
            write(self.models / model / str(version))
        (self.models / model).mkdir(parents=True, exist_ok=True)
        return self.models / model

    def entry(self, model: str, policy: str = "", labels: dict[str, int] | None = None) -> Entry:
        return Entry(model, self.models / model, policy, labels or {})

    def states(self, model: str) -> dict[int, str]:
        return {version: status.state.name for version, status in self.plane.statuses(model).items()}

    @staticmethod
    def triton_name(model: str, version: int) -> str:
        return names.servable_name(DEPLOYMENT, model, version)

    @property
    def configured(self) -> list[str]:
        """Models that are served, not those on trial only."""
        return sorted(name for name, route in self.plane.publisher.routes.models.items() if route.configured)

    def _contents(self, settings: Settings, executor: ThreadPoolExecutor) -> Contents:
        """What knows and keeps contents, known to the control plane."""
        reader, clock = ContentReader(), SystemClock()
        watch = ContentWatch(self.registry, self.recorder, reader, executor, executor)
        contents = Contents(
            self.registry,
            self.thread,
            self.recorder,
            self.kept,
            watch,
            reader,
            executor,
            clock,
            count=settings.rollback_keep,
        )
        contents.keep_if(self.plane.needs)
        self.plane.keep(contents)
        return contents

    def _rollback(self, contents: Contents, downloads: Downloads) -> Rollback:
        def stored(model: str, version: int) -> str | None:
            return self.plane.fleet.stored(self.triton_name(model, version))

        clock, follow = SystemClock(), self.configurator.follow
        found = RollbackContents(self.registry, self.thread, contents, downloads, stored, clock)
        kinds: dict[str, RollbackKind] = {
            "model": ModelRollbacks(self.registry, self.thread, self.plane, found, follow, 5.0),
            "label": LabelRollbacks(self.registry, self.thread, self.plane, follow),
        }
        return Rollback(self.registry, self.thread, self.recorder, kinds, self.configurator.alone, clock)

    def _instance(self, directory: Path, executor: ThreadPoolExecutor) -> ScriptedTriton:
        found, triton = controller(
            "one", directory / "repository", self.plane.fleet, self.plane, executor, load_concurrency=4, interval=0.05
        )
        self.plane.fleet.add(found)
        return triton


def parse(*entries: Entry) -> ModelServerConfig:
    return from_text("model_config_list { " + " ".join(map(str, entries)) + " }", ModelServerConfig)


@asynccontextmanager
async def running(directory: Path, **settings: Any) -> AsyncIterator[Place]:
    """A lifecycle that runs; nothing is configured yet."""
    url = sqlite_url(directory / "bridge.db")
    schema.upgrade(url)
    registry = Registry.open(url, deployment_id=DEPLOYMENT)
    defaults: dict[str, Any] = {"file_system_poll_wait_seconds": 0.1, "max_num_load_retries": 0}
    with ThreadPoolExecutor(4) as executor:
        place = Place(directory, Settings(**{**defaults, **settings}), registry, executor)
        recording = asyncio.create_task(place.recorder.run())
        place.plane.start()
        try:
            yield place
        finally:
            await place.plane.stop()
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
            place.thread.close()
            registry.close()
