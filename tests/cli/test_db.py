"""`bridge db` on SQLite; PostgreSQL goes through the same functions, tested with the registry."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bridge.cli.db import db
from bridge.registry import Registry, schema
from bridge.registry.database import sqlite_url
from bridge.state_dir import StateDir


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def call(state: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(db, [f"--state_dir={state}", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_a_database_from_begin_to_end(state: Path) -> None:
    assert (
        call(state, "status", code=2).output == f"{state}/bridge.db: schema none (this release needs {schema.head()})\n"
    )
    assert call(state, "upgrade").output == f"{state}/bridge.db: schema {schema.head()}\n"
    assert json.loads(call(state, "status", "--json").output) == {
        "database": f"{state}/bridge.db",
        "revision": schema.head(),
        "head": schema.head(),
        "known": True,
        "works_with": schema.head(),
        "current": True,
    }
    copy = Path(call(state, "backup").output.strip())
    assert copy.parent == state
    with closing(Registry.open(sqlite_url(copy))) as registry:
        assert [event.actor for event in registry.events()] == ["bridge db"]
    assert "say --destroy-history" in call(state, "downgrade", code=1).output
    assert "schema none" in call(state, "downgrade", "--destroy-history").output


def test_the_environment_names_the_database(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "elsewhere.db")
    result = CliRunner().invoke(db, ["upgrade"], env={"BRIDGE_DATABASE_URL": url})
    assert result.exit_code == 0, result.output
    assert schema.status(url).current


def test_a_live_server_keeps_its_schema(state: Path) -> None:
    call(state, "upgrade")
    server = StateDir(state)
    server.acquire()
    try:
        for command in (["upgrade"], ["downgrade", "--destroy-history"]):
            assert "is in use by process" in call(state, *command, code=1).output
        call(state, "status")
        call(state, "backup")
    finally:
        server.release()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["downgrade"], "There is no database"),
        (["backup"], "There is no database"),
        (["upgrade", "--audit_key_file=/nowhere/key"], "'/nowhere/key' cannot be read: No such file or directory"),
        (["downgrade", "--revision=zzz", "--destroy-history"], "There is no database"),
    ],
)
def test_refusals(state: Path, arguments: list[str], sentence: str) -> None:
    assert sentence in call(state, *arguments, code=1).output


def test_an_unknown_revision(state: Path) -> None:
    call(state, "upgrade")
    result = call(state, "downgrade", "--revision=zzz", "--destroy-history", code=1)
    assert result.output == "Error: There is no schema revision 'zzz'.\n"


def test_an_audit_key(state: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    call(state, "upgrade", f"--audit_key_file={tmp_path}/key")
    with closing(Registry.open(sqlite_url(state / "bridge.db"), audit_key=b"secret")) as registry:
        assert registry.verify_chain() is None
