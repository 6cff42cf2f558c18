from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.registry import Registry, schema
from bridge.registry.database import sqlite_url
from bridge.registry.thread import RegistryThread


class ManualTime:
    """A monotonic clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> ManualTime:
    return ManualTime()


@pytest.fixture
def open_registry(tmp_path: Path) -> Iterator[Callable[[], Registry]]:
    """Opens one database as often as there are replicas."""
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    opened: list[Registry] = []

    def open_() -> Registry:
        opened.append(Registry.open(url))
        return opened[-1]

    yield open_
    for registry in opened:
        registry.close()


@pytest.fixture
def registry(open_registry: Callable[[], Registry]) -> Registry:
    return open_registry()


@pytest.fixture
def thread() -> Iterator[RegistryThread]:
    thread = RegistryThread()
    yield thread
    thread.close()
