"""What the lifecycle observes, as it reaches a real registry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.errors import Code
from bridge.lifecycle.observations import Observations
from bridge.lifecycle.recorder import Recorder
from bridge.registry import schema
from bridge.registry.database import sqlite_url
from bridge.registry.records import Actor, ModelSpec, Owner
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState, VersionStatus


class Place:
    """Observations of a model `m`, written by a recorder that runs."""

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        self.registry = registry
        self.recorder = recorder
        self.observations = Observations(registry, recorder)
        registry.put_model(ModelSpec("m", "/m"), Owner.CONFIG, Actor("test", "CLI"))

    def observe(self, state: VersionState) -> None:
        self.observations.version("m", VersionStatus(1, state, Code.OK, ""), "/m/1", None)

    async def problems(self) -> list[tuple[str, str]]:
        assert await self.recorder.flush(20)
        return [(problem.path, problem.sentence) for problem in self.registry.problems()]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    registry, thread = Registry.open(url), RegistryThread()
    recorder = Recorder(thread.call)
    running = asyncio.create_task(recorder.run())
    yield Place(registry, recorder)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    thread.close()
    registry.close()


FULL = "/m/1 needs 1000 bytes on the file system of /r/.staging.x/tmp{}/new, which has {} free."


@pytest.mark.parametrize("end", [VersionState.AVAILABLE, VersionState.END])
async def test_the_platforms_trouble_is_written_once_and_ends_with_the_load(
    place: Place, caplog: pytest.LogCaptureFixture, end: VersionState
) -> None:
    place.observe(VersionState.LOADING)
    for number in range(50):
        place.observations.trouble("m", 1, FULL.format(f"abcdef{number:02d}", number))
    assert await place.problems() == [("version 1", FULL.format("abcdef00", 0))]
    assert caplog.text.count("waits for the platform") == 1
    place.observations.trouble("m", 1, "Triton embedded is down")
    assert await place.problems() == [("version 1", "Triton embedded is down")]
    place.observe(end)
    assert await place.problems() == []
    actions = [event.action for event in place.registry.events("model:m") if event.action.startswith("source")]
    assert actions == ["source problem", "source problem", "source cleared"]
