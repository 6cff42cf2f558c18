"""Old events moved to files: the chain goes on, later times keep their answers, and nothing is ever lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from bridge.errors import AlreadyExists, FailedPrecondition, Internal, InvalidArgument
from bridge.registry import Actor, ModelSpec, Owner, Registry, schema
from bridge.registry.anchors import Anchor
from bridge.registry.database import Database, sqlite_url
from bridge.registry.event_file import EventFile
from bridge.registry.integrity import Integrity
from bridge.registry.journal import digest
from bridge.registry.sealing import require_unsealed
from bridge.registry.verification import Verification, verify
from tests.registry.conftest import ManualClock
from tests.registry.tampering import Superuser

ROOT = Path(__file__).resolve().parents[2]
DAY = 86_400_000_000


class Place:
    """A database with a history of some days, and a directory for archives."""

    def __init__(self, registry: Registry, clock: ManualClock, url: str, directory: Path, actor: Actor) -> None:
        self.registry = registry
        self.clock = clock
        self.url = url
        self.integrity = Integrity(url)
        self.actor = actor
        self.start = clock.now()
        self._directory = directory

    def live(self, days: int) -> None:
        for _ in range(days):
            self.clock.advance(DAY)
            day = (self.clock.now() - self.start) // DAY
            self.registry.put_model(ModelSpec(f"m{day % 2}", "/m", labels={"stable": day}), Owner.ADMIN, self.actor)
            self.registry.record_version(f"m{day % 2}", day % 3, 30, path=f"/m/{day}", actor=self.actor)

    def path(self, name: str) -> Path:
        return self._directory / name

    def archive(self, days: int, name: str) -> Path:
        """Archive what is older than the first `days`."""
        before = self.start + days * DAY
        self.integrity.archive(before, self.path(name), self.actor, clock=self.clock)
        return self.path(name)

    def numbers(self) -> list[int]:
        return [event.seq for event in self.registry.events(limit=1000)]

    def tamper(self, work: Callable[[Superuser], None]) -> None:
        with closing(Database.connect(self.url)) as database:
            database.write(lambda connection: work(Superuser(connection)))

    def verify_tampered(self, work: Callable[[Superuser], None], archived: tuple[Path, ...]) -> list[Verification]:
        """What is found after `work`, without and with the archives; nothing of it stays."""
        found: list[Verification] = []

        def attempt(connection: Connection) -> None:
            work(Superuser(connection))
            found.extend(verify(connection, archived=paths) for paths in ((), archived))
            raise UndoError

        with closing(Database.connect(self.url)) as database, pytest.raises(UndoError):
            database.write(attempt)
        return found


class UndoError(Exception):
    """Ends a transaction whose changes nobody wants."""


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def sealed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place whose older half is archived in `a.jsonl`; tests leave it as it is."""
    directory = tmp_path_factory.mktemp("sealed")
    if request.param == "sqlite":
        url = sqlite_url(directory / "bridge.db")
    else:
        url = request.getfixturevalue("postgres").create_database()
    clock = ManualClock()
    schema.upgrade(url, clock=clock)
    with closing(Registry.open(url, clock=clock)) as registry:
        place = Place(registry, clock, url, directory, Actor("alice", "CLI"))
        place.live(10)
        place.archive(6, "a.jsonl")
        yield place


@pytest.fixture
def place(registry: Registry, clock: ManualClock, url: str, tmp_path: Path, actor: Actor) -> Place:
    made = Place(registry, clock, url, tmp_path, actor)
    made.live(10)
    return made


def test_archives_follow_one_another(place: Place) -> None:
    before = place.registry.events(limit=1000)
    first = place.archive(4, "first.jsonl")
    second = place.archive(8, "second.jsonl")
    files = [EventFile(path) for path in (first, second)]
    archived = [row["seq"] for file in files for row in file.rows()]
    assert archived == list(range(1, len(archived) + 1))
    assert files[1].header.previous_hash == files[0].last_hash
    kept = [seq for seq in place.numbers() if seq <= files[1].last]
    assert 0 < len(kept) < len(archived)
    assert [event for event in place.registry.events(limit=1000) if event.seq <= len(before)] == [
        event for event in before if event.seq in kept or event.seq > files[1].last
    ]
    found = place.integrity.verify(archived=(first, second))
    assert found.whole
    assert found.sealed_upto == files[1].last
    assert [event.action for event in place.registry.events(limit=1000)][-2:] == ["history archived"] * 2


def test_the_state_of_later_times_keeps_its_answer(place: Place) -> None:
    at = place.start + 9 * DAY
    before = place.registry.state_at(at)
    place.archive(8, "a.jsonl")
    assert place.registry.state_at(at) == before


def test_archived_times_are_named(place: Place) -> None:
    place.archive(8, "a.jsonl")
    with closing(Database.connect(place.url)) as database:

        def ask(connection: Connection, day: int) -> None:
            require_unsealed(connection, place.start + day * DAY)

        with pytest.raises(FailedPrecondition, match=r"up to 2023-11-2\S+Z \(event #\d+\) is archived in a\.jsonl"):
            database.read(lambda connection: ask(connection, 3))
        database.read(lambda connection: ask(connection, 9))
    with pytest.raises(FailedPrecondition, match=r"is archived in a\.jsonl"):
        place.integrity.export(since=place.start)
    assert len(list(place.integrity.export())) == place.numbers()[-1] - place.integrity.verify().sealed_upto + 2


def test_nothing_to_archive(place: Place) -> None:
    path = place.archive(-1, "a.jsonl")
    assert not path.exists()
    assert "history archived" not in {event.action for event in place.registry.events(limit=1000)}


def test_the_newest_event_stays(place: Place) -> None:
    place.archive(100, "a.jsonl")
    place.archive(101, "b.jsonl")
    assert place.integrity.verify().whole


def test_an_archive_is_not_overwritten(place: Place) -> None:
    place.path("a.jsonl").write_text("mine")
    with pytest.raises(AlreadyExists, match="exists already"):
        place.archive(4, "a.jsonl")
    assert place.path("a.jsonl").read_text() == "mine"
    with pytest.raises(FailedPrecondition, match="cannot be written: No such file or directory"):
        place.archive(4, "none/a.jsonl")


def test_a_broken_history_is_not_archived(place: Place) -> None:
    place.tamper(lambda it: it.edit(3))
    with pytest.raises(FailedPrecondition, match=r"Event #3 .* was changed.* Nothing is archived"):
        place.archive(4, "a.jsonl")
    assert not place.path("a.jsonl").exists()
    assert place.numbers()[:3] == [1, 2, 3]


@pytest.mark.parametrize(
    "statement",
    [
        "delete from events where seq = (select max(seq) from events)",
        "update events set actor = 'mallory' where seq = (select min(seq) from events)",
        "update archives set sealed_upto = sealed_upto + 1",
        "delete from archives",
        "insert into archives select seq, 1, at, hash, mac, 'x', 'x', at from events where seq = 20",
        "insert into archives select seq, 2, at, hash, mac, 'x', 'x', at from events order by seq desc limit 1",
    ],
)
def test_the_database_deletes_only_what_is_sealed(sealed: Place, statement: str) -> None:
    with closing(Database.connect(sealed.url)) as database, pytest.raises(Internal, match="is append-only"):
        database.write(lambda connection: connection.exec_driver_sql(statement))
    assert sealed.integrity.verify().whole


def forge_kept(superuser: Superuser) -> None:
    """Edit a kept event and have its own hash fit; the archives say otherwise."""
    row = superuser.rows()[0]
    superuser.edit(row["seq"])
    previous = superuser.connection.exec_driver_sql(
        f"select previous_hash from kept_events where seq = {row['seq']}"
    ).scalar_one()
    superuser.run(f"update events set hash = '{digest(previous, superuser.rows()[0])}' where seq = {row['seq']}")


@pytest.mark.parametrize(
    ("work", "what"),
    [
        (lambda it: it.edit(it.rows()[1]["seq"]), "was changed: its hash does not fit"),
        (forge_kept, "was taken away or exchanged"),
        (lambda it: it.delete(it.rows()[1]["seq"]), "is missing: it was archived and kept"),
        (
            lambda it: it.run(
                "delete from events where seq = (select min(seq) from kept_events)",
                "delete from kept_events where seq = (select min(seq) from kept_events)",
            ),
            "was taken away or exchanged",
        ),
        (lambda it: it.forge(2), "is archived and was not kept, but is there"),
        (lambda it: it.run("delete from archives", "delete from kept_events"), "stands where|is missing|was changed"),
        (lambda it: it.run("update archives set sha256 = 'f'"), "no event tells that it was archived"),
        (lambda it: it.run("update archives set hash = 'f'"), "hash does not fit"),
    ],
)
def test_tampering_with_what_is_sealed(sealed: Place, work: Callable[[Superuser], None], what: str) -> None:
    alone, with_archive = sealed.verify_tampered(work, (sealed.path("a.jsonl"),))
    assert any(part in str(alone.broken) for part in what.split("|"))
    assert with_archive.broken is not None


def test_an_anchor_from_before_the_seal(sealed: Place) -> None:
    path = sealed.path("a.jsonl")
    rows = list(EventFile(path).rows())
    row = next(row for row in rows if row["seq"] not in sealed.numbers())
    anchor = Anchor(sealed.registry.deployment_id, 1, row["seq"], row["hash"], row["at"])
    (unchecked,) = sealed.integrity.verify(anchor).unchecked
    assert unchecked == f"Event #{row['seq']}, which the anchor names, is archived: give the archives by --archive."
    assert sealed.integrity.verify(anchor, (path,)).unchecked == ()
    found = sealed.integrity.verify(replace(anchor, hash="f" * 64), (path,)).broken
    assert found is not None
    assert found.seq == row["seq"]


def test_archives_that_are_none(sealed: Place, tmp_path: Path) -> None:
    path = sealed.path("a.jsonl")
    lines = path.read_text().splitlines()
    cut = tmp_path / "cut.jsonl"
    cut.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(FailedPrecondition, match="the rest was cut off"):
        sealed.integrity.verify(archived=(cut,))
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join([lines[0], lines[2]]))
    with pytest.raises(FailedPrecondition, match=r"Event #1 in '\S+' is missing"):
        sealed.integrity.verify(archived=(other,))
    for text, sentence in (("x", "Line 1 of"), ("{}", "is none that `bridge export events` writes"), ("", "is none")):
        other.write_text(text)
        with pytest.raises(InvalidArgument, match=sentence):
            sealed.integrity.verify(archived=(other,))


KILLED = """
import os, signal, sys
from pathlib import Path
from bridge.registry import archiving, exporting, new_file
from bridge.registry.integrity import Integrity
from bridge.registry.records import Actor

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

url, target, before, stage = sys.argv[1:]
if stage == "writing":
    exporting.rows.__globals__["PAGE"] = 3
    new_file.sync_directory = die
elif stage == "written":
    archiving._seal_and_delete = die
else:
    archiving.HistoryArchived = die
Integrity(url).archive(int(before), Path(target), Actor("a", "CLI"))
"""


@pytest.mark.parametrize("stage", ["writing", "written", "deleted"])
def test_an_archive_step_that_is_killed(place: Place, stage: str) -> None:
    before = place.numbers()
    target, at = place.path("a.jsonl"), str(place.start + 8 * DAY)
    killed = subprocess.run([sys.executable, "-c", KILLED, place.url, target, at, stage], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert place.numbers() == before
    assert place.integrity.verify().whole
    place.archive(8, "again.jsonl")
    assert place.integrity.verify(archived=(place.path("again.jsonl"),)).whole
