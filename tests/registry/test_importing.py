"""Histories taken from files into new databases, on either kind of SQL."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import Actor, ModelInfo, ModelSpec, Owner, Registry, schema
from bridge.registry.database import sqlite_url
from bridge.registry.importing import import_events
from bridge.registry.integrity import Integrity
from tests.registry.conftest import ManualClock

ROOT = Path(__file__).resolve().parents[2]
ALICE = Actor("alice", "CLI")
KEY = b"a key of the auditors"
DAY = 86_400_000_000


class Files:
    """A history in three files: two archives and what is left; and the events as they were."""

    def __init__(self, directory: Path) -> None:
        self.url = sqlite_url(directory / "bridge.db")
        clock = ManualClock()
        schema.upgrade(self.url, clock=clock, audit_key=KEY)
        self.integrity = Integrity(self.url, KEY)
        self.paths = [directory / f"{name}.jsonl" for name in ("first", "second", "rest")]
        with closing(Registry.open(self.url, clock=clock, audit_key=KEY)) as registry:
            self.deployment = registry.deployment_id
            registry.register_model("r", ModelInfo("keras", "/r"), False, 0, ALICE)
            for day in range(6):
                clock.advance(DAY)
                registry.put_model(ModelSpec("m", "/m", labels={"stable": day}), Owner.ADMIN, ALICE)
            self.events = registry.events(limit=1000)
            self.integrity.archive(clock.now() - 4 * DAY, self.paths[0], ALICE, clock=clock)
            self.integrity.archive(clock.now() - 2 * DAY, self.paths[1], ALICE, clock=clock)
        self.paths[2].write_text("".join(f"{line}\n" for line in self.integrity.export()))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def test_archives_and_an_export_make_the_whole_history_again(files: Files, empty_url: str) -> None:
    last = files.integrity.anchor()
    imported = import_events(empty_url, files.paths[::-1], ALICE, KEY, ManualClock())
    assert (imported.continues.seq, imported.continues.hash, imported.epoch) == (last.seq, last.hash, 2)
    with closing(Registry.open(empty_url, audit_key=KEY)) as registry:
        events = registry.events(limit=1000)
        assert events[: len(files.events)] == files.events
        assert registry.deployment_id == files.deployment
        assert registry.models() == ()
        new, _ = registry.register_model("other", ModelInfo("keras"), False, 0, ALICE)
        assert new.generation == 2, "generations are never used twice in a deployment"
    found = Integrity(empty_url, KEY).verify(last)
    assert (found.whole, found.epoch) == (True, 2)
    told = events[-1]
    assert (told.action, told.after["epoch"]) == ("history imported", 2)
    assert told.after["continues"]["hash"] == last.hash
    assert Integrity(empty_url, KEY).anchor().epoch == 2


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ([1, 2], "from its first event on, but '.*second.jsonl' begins with event"),
        ([0, 2], "rest.jsonl' begins with event #.* and does not go on from '.*first.jsonl', which ends with"),
        ([0, 0], "does not go on from"),
        ([], "no file is given"),
    ],
)
def test_files_that_do_not_follow_one_another(files: Files, tmp_path: Path, chosen: list[int], sentence: str) -> None:
    url = sqlite_url(tmp_path / "new.db")
    with pytest.raises(FailedPrecondition, match=sentence):
        import_events(url, [files.paths[number] for number in chosen], ALICE, KEY)
    assert schema.status(url).revision == schema.EMPTY


def test_a_history_with_a_key_needs_it(files: Files, tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "new.db")
    with pytest.raises(FailedPrecondition, match="give it by --audit_key_file"):
        import_events(url, files.paths, ALICE)
    with pytest.raises(FailedPrecondition, match="somebody without this audit key"):
        import_events(url, files.paths, ALICE, b"another")
    assert schema.status(url).revision == schema.EMPTY


def test_a_used_database_is_refused(files: Files, url: str) -> None:
    with pytest.raises(FailedPrecondition, match="is in use: events are imported into a new one only"):
        import_events(url, files.paths, ALICE, KEY)


@pytest.mark.parametrize(
    ("old", "new", "error", "sentence"),
    [
        ('"actor":"alice"', '"actor":"mallory"', FailedPrecondition, r"Event #\d+ in '.*' was changed"),
        ('"actor":"alice"', '"actor":7', InvalidArgument, "Line 3 of .* has no right 'actor'"),
        ('"actor":"alice"', '"actor":"alice","x":1', InvalidArgument, "has a 'x', which this release does not know"),
        ('"version":1', '"version":9', InvalidArgument, "has version 9 of its format; this release reads 1"),
    ],
)
def test_files_that_are_not_right(
    files: Files, tmp_path: Path, old: str, new: str, error: type[Exception], sentence: str
) -> None:
    bad = tmp_path / "bad.jsonl"
    text = files.paths[0].read_text()
    assert old in text
    bad.write_text(text.replace(old, new, 1))
    url = sqlite_url(tmp_path / "new.db")
    with pytest.raises(error, match=sentence):
        import_events(url, [bad, *files.paths[1:]], ALICE, KEY)
    assert schema.status(url).revision == schema.EMPTY


KILLED = """
import os, signal, sys
from pathlib import Path
from bridge.registry import importing
from bridge.registry.records import Actor

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

importing.HistoryImported = die
url, key, *files = sys.argv[1:]
importing.import_events(url, [Path(file) for file in files], Actor("a", "CLI"), key.encode())
"""


def test_an_import_that_is_killed(files: Files, empty_url: str) -> None:
    command = [sys.executable, "-c", KILLED, empty_url, KEY.decode(), *map(str, files.paths)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert schema.status(empty_url).revision == schema.EMPTY
    import_events(empty_url, files.paths, ALICE, KEY)
    assert Integrity(empty_url, KEY).verify().whole
