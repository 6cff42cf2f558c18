"""Databases put back from backups: all or nothing, and a new epoch of the history."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import Actor, EventRecord, ModelInfo, ModelSpec, Registry, SetVModel, schema
from bridge.registry.database import Database, sqlite_url
from bridge.registry.integrity import Integrity
from bridge.registry.restoring import Restore
from tests.registry.conftest import Fleet, ManualClock
from tests.registry.tampering import Superuser
from tests.support.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
ALICE = Actor("alice", "CLI")


def fill(url: str) -> None:
    clock = ManualClock()
    with closing(Registry.open(url, clock=clock)) as registry:
        registry.apply_config("file", "h", "text ü", [ModelSpec("m", "/m", labels={"stable": 1})], ALICE)
        registry.record_version("m", 1, 30, path="/m/1", fingerprint="f", size=7, actor=ALICE)
        registry.set_vmodel(SetVModel("v", "r", ModelInfo("keras", "/r"), auto_delete=True), Fleet(), ALICE)
        registry.upsert_instance("t", "a:1", "a:2", actor=ALICE)
        registry.record_copy("x", "m", 1, "t", 30, actor=ALICE)
        clock.advance(1_000_000)
        registry.set_policy("m", {"latest": 2}, ALICE)


def archive(url: str, path: Path) -> None:
    Integrity(url).archive(ManualClock().now() + 500_000, path, ALICE, clock=ManualClock())


def content(url: str) -> tuple[object, ...]:
    with closing(Registry.open(url)) as registry:
        return (
            registry.deployment_id,
            registry.models(removed=True),
            registry.versions(),
            registry.vmodels(),
            registry.registered_models(),
            registry.instances(),
            registry.copies(),
            registry.config_revisions(),
        )


def events(url: str) -> tuple[EventRecord, ...]:
    with closing(Registry.open(url)) as registry:
        return registry.events(limit=1000)


@pytest.fixture
def filled_url(url: str) -> str:
    fill(url)
    return url


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("target", ["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def test_a_dump_goes_into_either_kind_of_database(
    filled_url: str, target: str, archived: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if archived:
        archive(filled_url, tmp_path / "archive.jsonl")
    dump = Integrity(filled_url).dump(tmp_path / "dump.jsonl")
    assert dump.stat().st_mode & 0o077 == 0, "the dump holds what the database keeps secret"
    url = sqlite_url(tmp_path / "new.db")
    if target == "postgresql":
        url = request.getfixturevalue("postgres").create_database()
    anchor = Integrity(filled_url).anchor()
    restored = Restore(dump, ALICE).run(url)
    assert (restored.continues, restored.epoch, restored.moved_to) == (anchor, 2, "")
    assert content(url) == content(filled_url)
    *before, told = events(url)
    assert tuple(before) == events(filled_url)
    assert (told.action, told.after["epoch"], told.after["continues"]) == (
        "history restored",
        2,
        anchor.to_json(),
    )
    found = Integrity(url).verify(anchor)
    assert (found.whole, found.epoch) == (True, 2)


def test_a_restore_replaces_an_older_state(filled_url: str, tmp_path: Path) -> None:
    before = content(filled_url)
    dump = Integrity(filled_url).dump(tmp_path / "dump.jsonl")
    with closing(Registry.open(filled_url)) as registry:
        registry.set_policy("m", {"all": {}}, ALICE)
    newer = content(filled_url)
    with pytest.raises(FailedPrecondition, match=r"events that the backup has not, the last of them #\d+"):
        Restore(dump, ALICE).run(filled_url)
    assert content(filled_url) == newer
    restored = Restore(dump, ALICE, destroy_history=True).run(filled_url)
    assert content(filled_url) == before
    assert Integrity(filled_url).verify().whole
    if restored.moved_to:
        assert content(sqlite_url(Path(restored.moved_to))) == newer
    Restore(Integrity(filled_url).dump(tmp_path / "again.jsonl"), ALICE).run(filled_url)
    assert Integrity(filled_url).verify().epoch == 3


def test_an_anchor_from_after_the_backup_shows_the_loss(filled_url: str, tmp_path: Path) -> None:
    dump = Integrity(filled_url).dump(tmp_path / "dump.jsonl")
    with closing(Registry.open(filled_url)) as registry:
        registry.set_policy("m", {"all": {}}, ALICE)
    anchor = Integrity(filled_url).anchor()
    Restore(dump, ALICE, destroy_history=True).run(filled_url)
    found = Integrity(filled_url).verify(anchor)
    assert found.broken is not None
    assert (found.broken.seq, found.whole) == (anchor.seq, False)


@pytest.mark.integration
def test_a_database_in_use(postgres_url: str, postgres: PostgresServer, tmp_path: Path) -> None:
    postgres.empty_database(postgres_url)
    schema.upgrade(postgres_url)
    fill(postgres_url)
    dump = Integrity(postgres_url).dump(tmp_path / "dump.jsonl")
    with closing(Registry.open(postgres_url)) as registry:
        registry.models()
        with pytest.raises(FailedPrecondition, match="in use: bridges hold 1 connections; stop them first"):
            Restore(dump, ALICE).run(postgres_url)


def test_a_newer_schema(filled_url: str, tmp_path: Path) -> None:
    dump = Integrity(filled_url).dump(tmp_path / "dump.jsonl")
    newer = tmp_path / "newer.jsonl"
    newer.write_text(dump.read_text().replace(f'"revision":"{schema.head()}"', '"revision":"9999"', 1))
    with pytest.raises(FailedPrecondition, match="of schema 9999, which a newer release made"):
        Restore(newer, ALICE).run(filled_url)
    with closing(Database.connect(filled_url)) as database:
        database.write(lambda it: it.exec_driver_sql("update alembic_version set version_num = '9999'"))
    with pytest.raises(FailedPrecondition, match="at revision 9999, which a newer release made"):
        Restore(dump, ALICE).run(filled_url)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[: text.rindex('{"rows"')], "is not complete"),
        (lambda text: text.replace('"fingerprint":"f"', '"fingerprint":"f","x":1', 1), "that do not fit the table"),
        (lambda text: text.replace('{"row":{"active"', '{"row":{"nothing"', 1), "that do not fit the table"),
        (lambda text: text.replace('"table":"models"', '"table":"secrets"'), "a table that its revision has not"),
        (lambda text: text.replace('"actor":"alice"', '"actor":"mallory"', 1), r"is broken: Event #\d+ was changed"),
        (lambda text: text.replace("triton-bridge database", "x", 1), "is none that `bridge db backup` writes"),
    ],
)
def test_a_backup_that_is_not_right(url: str, tmp_path: Path, change: Callable[[str], str], sentence: str) -> None:
    source = sqlite_url(tmp_path / "source.db")
    schema.upgrade(source)
    fill(source)
    text = Integrity(source).dump(tmp_path / "dump.jsonl").read_text()
    bad = tmp_path / "bad.jsonl"
    bad.write_text(change(text))
    assert bad.read_text() != text
    before = events(url)
    with pytest.raises((FailedPrecondition, InvalidArgument), match=sentence):
        Restore(bad, ALICE, destroy_history=True).run(url)
    assert events(url) == before


def test_a_copy_of_sqlite(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    fill(url)
    before = content(url)
    copy = schema.backup(url, tmp_path / "copy.db")
    restored = Restore(copy, ALICE, destroy_history=True).run(url)
    assert content(url) == before
    assert Integrity(url).verify().whole
    assert Path(restored.moved_to).name.startswith("bridge.db.before-restore-")
    with closing(sqlite3.connect(tmp_path / "empty.db")) as empty:
        empty.execute("create table t (x)")
    with pytest.raises(FailedPrecondition, match="is no backup of a bridge"):
        Restore(tmp_path / "empty.db", ALICE).run(url)
    with pytest.raises(FailedPrecondition, match="cannot be read: No such file"):
        Restore(tmp_path / "none.db", ALICE).run(url)


@pytest.mark.integration
def test_a_copy_of_sqlite_does_not_go_into_postgresql(postgres_url: str, tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url)
    with pytest.raises(FailedPrecondition, match="--portable` goes into PostgreSQL"):
        Restore(tmp_path / "bridge.db", ALICE).run(postgres_url)


def test_an_older_copy_of_sqlite(tmp_path: Path) -> None:
    old = sqlite_url(tmp_path / "old.db")
    schema.upgrade(old, revision="0004")
    url = sqlite_url(tmp_path / "bridge.db")
    with closing(sqlite3.connect(tmp_path / "old.db")) as database:
        database.execute("insert into meta (id, deployment_id, created_at) values (1, '0123abcd', 1)")
        database.commit()
    Restore(tmp_path / "old.db", ALICE).run(url)
    assert schema.status(url).current
    assert Integrity(url).verify().whole


def test_a_broken_history_is_not_restored(filled_url: str, tmp_path: Path) -> None:
    with closing(Database.connect(filled_url)) as database:
        database.write(lambda connection: Superuser(connection).edit(2))
    dump = Integrity(filled_url).dump(tmp_path / "dump.jsonl")
    with pytest.raises(FailedPrecondition, match="is broken: Event #2 was changed"):
        Restore(dump, ALICE).run(sqlite_url(tmp_path / "new.db"))
    assert not (tmp_path / "new.db").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from bridge.registry import restoring
from bridge.registry.records import Actor

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

url, file, stage = sys.argv[1:]
if stage == "filled":
    restoring.HistoryRestored = die
else:
    Path.replace = die
restoring.Restore(Path(file), Actor("a", "CLI"), destroy_history=True).run(url)
"""


@pytest.mark.parametrize(
    ("dialect", "stage"),
    [("sqlite", "filled"), ("sqlite", "moved"), pytest.param("postgresql", "filled", marks=pytest.mark.integration)],
    indirect=["dialect"],
)
def test_a_restore_that_is_killed(filled_url: str, tmp_path: Path, stage: str) -> None:
    dump = Integrity(filled_url).dump(tmp_path / "dump.jsonl")
    with closing(Registry.open(filled_url)) as registry:
        registry.set_policy("m", {"all": {}}, ALICE)
    before = (content(filled_url), events(filled_url))
    command = [sys.executable, "-c", KILLED, filled_url, str(dump), stage]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert (content(filled_url), events(filled_url)) == before
    Restore(dump, ALICE, destroy_history=True).run(filled_url)
    assert Integrity(filled_url).verify().whole
