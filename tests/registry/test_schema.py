"""Migrations there and back, on empty databases and with history, from older and newer schemas."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from bridge.errors import AlreadyExists, FailedPrecondition, Internal, InvalidArgument
from bridge.registry import Actor, ModelSpec, Owner, Registry, migration_scripts, schema
from bridge.registry.database import Database, sqlite_path, sqlite_url
from bridge.registry.tables import metadata
from tests.registry.conftest import ManualClock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def database(empty_url: str) -> Iterator[Database]:
    with closing(Database.connect(empty_url)) as opened:
        yield opened


def run_sql(database: Database, statement: str) -> None:
    database.write(lambda connection: connection.exec_driver_sql(statement))


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.backup-*"))


@pytest.mark.filterwarnings("ignore:Computed default on events.slot cannot be modified")
def test_upgrade_makes_the_tables_of_the_code(empty_url: str, database: Database) -> None:
    assert schema.upgrade(empty_url).current
    context = {"compare_type": True, "compare_server_default": True}
    assert database.read(lambda c: compare_metadata(MigrationContext.configure(c, opts=context), metadata)) == []


def test_every_constraint_has_the_name_of_the_convention(empty_url: str, database: Database) -> None:
    schema.upgrade(empty_url)

    def names(connection: sa.Connection) -> set[str | None]:
        inspector = sa.inspect(connection)
        found: set[str | None] = set()
        for table in metadata.tables:
            found.add(inspector.get_pk_constraint(table)["name"])
            found |= {item["name"] for item in inspector.get_foreign_keys(table)}
            found |= {item["name"] for item in inspector.get_check_constraints(table)}
            found |= {item["name"] for item in inspector.get_unique_constraints(table)}
        return found

    wanted = {str(item.name) for table in metadata.tables.values() for item in table.constraints}
    assert database.read(names) == wanted


def test_upgrade_is_an_event_and_happens_once(empty_url: str) -> None:
    schema.upgrade(empty_url, actor=Actor("root", "CLI"))
    schema.upgrade(empty_url)
    with closing(Registry.open(empty_url)) as registry:
        (event,) = registry.events()
        assert (event.action, event.actor, event.before, event.after) == (
            "database migrated",
            "root",
            None,
            {"revision": schema.head()},
        )
        assert registry.verify_chain() is None


def test_bridges_that_start_together_migrate_once(empty_url: str) -> None:
    program = f"from bridge.registry import schema; schema.upgrade({empty_url!r})"
    starts = [subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE) for _ in range(3)]
    assert [start.communicate()[1] for start in starts] == [b""] * 3
    with closing(Registry.open(empty_url)) as registry:
        assert [event.action for event in registry.events()] == ["database migrated"]


def test_downgrade_with_history_needs_to_be_told(empty_url: str) -> None:
    schema.upgrade(empty_url)
    with pytest.raises(FailedPrecondition, match="could lose the 1 recorded events"):
        schema.downgrade(empty_url)
    assert schema.status(empty_url).current
    assert schema.downgrade(empty_url, destroy_history=True).revision == schema.EMPTY
    assert schema.upgrade(empty_url).current


def test_a_downgrade_by_a_step_is_an_event(empty_url: str, database: Database) -> None:
    schema.upgrade(empty_url)
    assert schema.downgrade(empty_url, "0001", destroy_history=True).revision == "0001"
    assert schema.upgrade(empty_url, migrate=True).current
    with closing(Registry.open(empty_url)) as registry:
        assert [(event.before, event.after) for event in registry.events()] == [
            (None, {"revision": schema.head()}),
            ({"revision": schema.head()}, {"revision": "0001"}),
            ({"revision": "0001"}, {"revision": schema.head()}),
        ]
        assert registry.verify_chain() is None


def test_alembic_there_and_back(empty_url: str) -> None:
    assert alembic(empty_url, "upgrade", "head").returncode == 0
    assert alembic(empty_url, "downgrade", "base").returncode == 0
    assert alembic(empty_url, "upgrade", "head").returncode == 0
    assert schema.status(empty_url).current


def test_alembic_keeps_history_unless_told(url: str) -> None:
    refused = alembic(url, "downgrade", "base")
    assert refused.returncode != 0
    assert "--destroy-history" in refused.stderr
    assert alembic(url, "-x", "destroy_history=true", "downgrade", "base").returncode == 0


def alembic(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BRIDGE_DATABASE_URL": url}
    command = [sys.executable, "-m", "alembic", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_older_schema(empty_url: str) -> None:
    """SQLite is copied and migrated, PostgreSQL waits for a decision."""
    schema.upgrade(empty_url, revision="0001", clock=ManualClock())
    with pytest.raises(FailedPrecondition, match="run `bridge db upgrade`"):
        Registry.open(empty_url)
    path = sqlite_path(empty_url)
    if path is None:
        with pytest.raises(FailedPrecondition, match="--migrate"):
            schema.upgrade(empty_url)
        assert schema.upgrade(empty_url, migrate=True).current
    else:
        assert schema.upgrade(empty_url, clock=ManualClock()).current
        (copy,) = backups(path)
        assert copy.name == "bridge.db.backup-0001-20231114T221320.000000Z"
        assert schema.status(sqlite_url(copy)).revision == "0001"


def test_newer_schema_is_refused(url: str) -> None:
    with closing(Database.connect(url)) as database:
        run_sql(database, "update alembic_version set version_num = '9999'")
    for attempt in (Registry.open, lambda it: schema.upgrade(it, migrate=True), schema.downgrade):
        with pytest.raises(FailedPrecondition, match="revision 9999, which a newer release made"):
            attempt(url)


def test_a_newer_schema_that_was_only_added_to_is_used(url: str, actor: Actor) -> None:
    """Bridges of two neighbouring releases share a database; only the newer one may take its schema back."""
    with closing(Database.connect(url)) as database:
        run_sql(database, "alter table models add column newer text")
        run_sql(database, "update alembic_version set version_num = '9999'")
        run_sql(database, f"update schema_compatibility set revision = '9999', works_with = '{schema.head()}'")
    assert schema.upgrade(url).revision == "9999"
    with closing(Registry.open(url)) as registry:
        assert registry.put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)
    with pytest.raises(FailedPrecondition, match="revision 9999, which a newer release made"):
        schema.downgrade(url)


def test_a_schema_says_which_releases_work_with_it(url: str) -> None:
    assert "0008" <= schema.status(url).works_with <= schema.head()


def test_open_needs_a_schema(empty_url: str) -> None:
    with pytest.raises(FailedPrecondition, match="revision none"):
        Registry.open(empty_url)


def test_a_failed_migration_leaves_nothing(empty_url: str, database: Database) -> None:
    run_sql(database, "create table instances (name text)")
    with pytest.raises(Internal, match="instances"):
        schema.upgrade(empty_url)
    tables = database.read(lambda connection: set(sa.inspect(connection).get_table_names()))
    assert tables <= {"instances", "alembic_version"}


def test_backup_of_a_database_in_use(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    with closing(Registry.open(url)) as registry:
        copy = schema.backup(url, clock=ManualClock())
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("select deployment_id from meta").fetchone()[0] == registry.deployment_id
    with pytest.raises(AlreadyExists, match="exists already"):
        schema.backup(url, target=copy)


def test_backup_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="pg_dump"):
        schema.backup("postgresql://nobody@127.0.0.1:1/x")
    with pytest.raises(FailedPrecondition, match="There is no database"):
        schema.backup(sqlite_url(tmp_path / "none.db"))


def test_status_does_not_create_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bridge.db"
    assert schema.status(sqlite_url(path)).revision == schema.EMPTY
    assert not path.exists()


def test_revisions_are_those_of_alembic() -> None:
    scripts = ScriptDirectory.from_config(migration_scripts.config())
    assert schema.revisions() == {item.revision for item in scripts.walk_revisions()}
    assert schema.head() == scripts.get_current_head()


def test_a_current_schema_is_recognised_without_alembic(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    program = (
        "import sys; from bridge.registry import Registry, schema\n"
        f"schema.upgrade({url!r}); Registry.open({url!r}).close()\n"
        "assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
