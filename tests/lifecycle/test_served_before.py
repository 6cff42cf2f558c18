"""What the history says of a model's versions, over lives of a server that ended in every way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge.lifecycle.served_before import ServedBefore
from bridge.registry import schema
from bridge.registry.database import sqlite_url
from bridge.registry.records import Actor, ModelSpec, Owner
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState
from model_repo_sync import names
from model_repo_sync.sources import VersionDirectory

ACTOR = Actor("test", "CLI")
RESTART = "|"
STATES = {
    "S": VersionState.START,
    "L": VersionState.LOADING,
    "A": VersionState.AVAILABLE,
    "U": VersionState.UNLOADING,
    "E": VersionState.END,
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Shared: every history is that of a model of its own."""
    url = sqlite_url(tmp_path_factory.mktemp("registry") / "bridge.db")
    schema.upgrade(url)
    registry = Registry.open(url)
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def thread() -> Iterator[RegistryThread]:
    thread = RegistryThread()
    yield thread
    thread.close()


@pytest.mark.parametrize(
    ("history", "served"),
    [
        ("SLA", True),
        ("SLA|", True),
        ("SLA||", True),
        ("SLA|SL|", True),
        ("SLA|S|SL|", True),
        ("SLAU", False),
        ("SLAUE", False),
        ("SLAUE|", False),
        ("SL", False),
        ("SL|", False),
        ("SLE|", False),
        ("SLE|SL|", False),
        ("SLAUE|SLA|", True),
        ("SLA|SLE|", False),
        ("", False),
    ],
)
async def test_histories(registry: Registry, thread: RegistryThread, history: str, served: bool) -> None:
    model = f"model {history}"
    registry.put_model(ModelSpec(model, "/m"), Owner.CONFIG, ACTOR)
    for step in history:
        if step == RESTART:
            registry.end_of_process(ACTOR)
        else:
            registry.record_version(model, 7, int(STATES[step]), path="/m/7", actor=ACTOR)
            registry.record_version(model, 8, int(VersionState.END), path="/m/8", actor=ACTOR)
    name = names.servable_name(registry.deployment_id, model, 7)
    before = ServedBefore(registry, thread, {name: "/repository/7"}.get)
    assert await before.versions(model) == ([VersionDirectory(7, "/repository/7")] if served else [])
    assert await ServedBefore(registry, thread, lambda name: None).versions(model) == []


async def test_a_model_without_a_history(registry: Registry, thread: RegistryThread) -> None:
    assert await ServedBefore(registry, thread, lambda name: "/repository").versions("unknown") == []
