"""An upgrade of the schema in a process of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridge.errors import BridgeError, Code
from bridge.registry import Registry, schema, upgrader
from bridge.registry.database import sqlite_url

KEY = b"a key"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.db"


def test_a_new_database_gets_its_tables_and_its_first_event(path: Path) -> None:
    url = sqlite_url(path)
    upgrader.upgrade(url, migrate=False, audit_key=KEY)
    assert schema.status(url).current
    upgrader.upgrade(url, migrate=False, audit_key=KEY)
    with closing(Registry.open(url, audit_key=KEY)) as registry:
        assert [event.action for event in registry.events()] == ["database migrated"]


def test_a_refusal_comes_back_as_it_is(path: Path) -> None:
    url = sqlite_url(path)
    upgrader.upgrade(url, migrate=False, audit_key=None)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update alembic_version set version_num = '9999'")
    answer = upgrader.answer({"url": url, "migrate": False, "key": None})
    assert answer["code"] == Code.FAILED_PRECONDITION.name
    with pytest.raises(BridgeError, match="9999") as caught:
        upgrader.upgrade(url, migrate=False, audit_key=None)
    assert (caught.value.code, caught.value.message) == (Code.FAILED_PRECONDITION, answer["error"])
