"""Every test of the registry runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.registry import Actor, Registry, schema
from bridge.registry.database import sqlite_path, sqlite_url
from tests.support.postgres import PostgresServer, postgres_server


class ManualClock:
    """A clock that stands still until it is told to move."""

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self.time = now

    def now(self) -> int:
        return self.time

    def advance(self, microseconds: int) -> None:
        self.time += microseconds


class Fleet:
    """Says how many copies are loaded; none is loading unless `loading` says so."""

    def __init__(self, loading: dict[str, int] | None = None, **loaded: int) -> None:
        self._loading = loading or {}
        self._loaded = loaded

    def copies(self, model_id: str) -> int:
        return self.loaded(model_id) + self._loading.get(model_id, 0)

    def loaded(self, model_id: str) -> int:
        return self._loaded.get(model_id, 0)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the current schema, to be copied."""
    path = tmp_path_factory.mktemp("template") / "bridge.db"
    schema.upgrade(sqlite_url(path), clock=ManualClock())
    return path


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> str:
    """A database that tests use one after the other: a new one costs three times what emptying it does."""
    return postgres.create_database()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any table."""
    if dialect == "sqlite":
        return sqlite_url(tmp_path / "bridge.db")
    url = request.getfixturevalue("postgres_url")
    request.getfixturevalue("postgres").empty_database(url)
    return str(url)


@pytest.fixture
def url(empty_url: str, request: pytest.FixtureRequest) -> str:
    """A database with the current schema."""
    path = sqlite_path(empty_url)
    if path is None:
        schema.upgrade(empty_url, clock=ManualClock())
    else:
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
    return empty_url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_registry(url: str, clock: ManualClock) -> Iterator[Callable[..., Registry]]:
    """Opens the same database as often as a test wants."""
    opened: list[Registry] = []

    def open_(**arguments: object) -> Registry:
        opened.append(Registry.open(url, **{"clock": clock, **arguments}))  # type: ignore[arg-type]
        return opened[-1]

    yield open_
    for registry in opened:
        registry.close()


@pytest.fixture
def registry(open_registry: Callable[..., Registry]) -> Registry:
    return open_registry()


@pytest.fixture
def actor() -> Actor:
    return Actor("alice", "CLI", reason="because", request_id="r-1")
