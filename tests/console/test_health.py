"""Readiness and its reasons."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bridge.console import health
from bridge.console.health import Health
from bridge.errors import Unavailable
from bridge.lifecycle.control_plane import ControlPlane
from bridge.registry import Registry, schema
from bridge.registry.database import sqlite_url
from bridge.registry.thread import RegistryThread


@pytest.fixture
def thread() -> Iterator[RegistryThread]:
    thread = RegistryThread()
    yield thread
    thread.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    registry = Registry.open(url)
    yield registry
    registry.close()


def plane(*unsettled: str, **instances: str) -> ControlPlane:
    """Unsettled for these reasons, with instances that are down for their reasons, or up for none."""
    controllers = {name: SimpleNamespace(name=name, up=not reason, reason=reason) for name, reason in instances.items()}
    fleet = SimpleNamespace(controllers=controllers)
    return cast(ControlPlane, SimpleNamespace(unsettled=lambda: iter(unsettled), fleet=fleet))


@pytest.mark.parametrize(
    ("state", "reasons"),
    [
        (plane(one=""), []),
        (plane(one="connection refused", two=""), []),
        (plane("model half is loading", one=""), ["model half is loading"]),
        (
            plane("a", one="connection refused", two="no probe"),
            ["a", "Triton instance one is down: connection refused", "Triton instance two is down: no probe"],
        ),
    ],
)
async def test_models_and_instances(
    registry: Registry, thread: RegistryThread, state: ControlPlane, reasons: list[str]
) -> None:
    assert await Health(state, registry, thread).reasons() == reasons


async def test_a_registry_that_is_away(
    registry: Registry, thread: RegistryThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise Unavailable("The database db does not answer: gone.")

    monkeypatch.setattr(registry, "current_config", refuse)
    assert await Health(plane(one=""), registry, thread).reasons() == [
        "the registry does not answer: The database db does not answer: gone."
    ]


async def test_a_registry_that_hangs(
    registry: Registry, thread: RegistryThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.05)
    go_on = threading.Event()
    monkeypatch.setattr(registry, "current_config", go_on.wait)
    probe = Health(plane(one=""), registry, thread)
    assert await probe.reasons() == ["the registry did not answer within 0 s"]
    go_on.set()
    monkeypatch.undo()
    assert await probe.reasons() == []
