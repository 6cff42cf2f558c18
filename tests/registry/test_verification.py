"""Every way to tamper with a history by raw SQL, and what a verification finds of it by which means."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy.engine import Connection

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import Actor, ModelInfo, ModelSpec, Owner, Registry, SetVModel, schema
from bridge.registry.anchors import Anchor, read_anchor
from bridge.registry.database import Database, sqlite_url
from bridge.registry.events import ServerStopped
from bridge.registry.integrity_events import HistoryArchived
from bridge.registry.journal import Journal
from bridge.registry.live_events import LiveMoved
from bridge.registry.verification import Verification, verify
from tests.registry.conftest import Fleet, ManualClock
from tests.registry.history_filler import Filler
from tests.registry.tampering import Superuser

KEY = b"a key of the auditors"
ALICE = Actor("alice", "CLI")
ANCHORED = 20
"""The event that the anchor names."""

END = 31
"""The number that the next event will have."""


class Findings(NamedTuple):
    """The first event found broken without key and anchor, with either and with both; None: none."""

    plain: int | None
    key: int | None
    anchor: int | None
    both: int | None


class UndoError(Exception):
    """Ends a transaction whose changes nobody wants."""


class History:
    """A history with a mac on every event but the first, and an anchor taken on the way."""

    def __init__(self, url: str) -> None:
        schema.upgrade(url, clock=ManualClock())
        self.clock = ManualClock()
        self.database = Database.connect(url)
        with closing(Registry.open(url, clock=self.clock, audit_key=KEY)) as registry:
            self._write(registry)

    def _write(self, registry: Registry) -> None:
        registry.put_model(ModelSpec("m", "/m", labels={"stable": 1}), Owner.ADMIN, ALICE)
        registry.record_version("m", 1, 30, path="/m/1", fingerprint="f", actor=ALICE)
        registry.upsert_instance("t", "127.0.0.1:1", "127.0.0.1:2", actor=ALICE)
        registry.set_label("m", "canary", 2, ALICE)
        registry.append(LiveMoved("model:m", None, {"model": "m", "version": 1}), ALICE)
        registry.set_policy("m", {"specific": [1]}, ALICE)
        registry.set_label("m", "canary", 3, ALICE)
        self._fill(registry, ANCHORED)
        self.anchor = self.database.read(lambda connection: read_anchor(connection, KEY))
        self.clock.advance(1_000_000)
        request = SetVModel("v", "r", ModelInfo("keras", "/r"), auto_delete=True)
        registry.set_vmodel(request, Fleet(), ALICE)
        registry.set_label("m", "canary", 4, ALICE)
        self._fill(registry, END - 1)

    def _fill(self, registry: Registry, last: int) -> None:
        """Have `last` be the last event."""
        seq = registry.events(newest_first=True, limit=1)[0].seq
        for number in range(seq, last):
            registry.append(ServerStopped(f"filler {number}"), ALICE)

    def tampered(self, work: Callable[[Superuser], None], look: Callable[[Connection], Any]) -> Any:
        """What `look` sees after `work`, of which nothing stays."""
        seen: list[Any] = []

        def attempt(connection: Connection) -> None:
            work(Superuser(connection))
            seen.append(look(connection))
            raise UndoError

        with pytest.raises(UndoError):
            self.database.write(attempt)
        return seen[0]

    def findings(self, work: Callable[[Superuser], None]) -> Findings:
        def look(connection: Connection) -> Findings:
            anchors: tuple[Anchor | None, ...] = (None, self.anchor)
            found = [verify(connection, key, anchor).broken for anchor in anchors for key in (None, KEY)]
            return Findings(*(item.seq if item is not None else None for item in found))

        findings: Findings = self.tampered(work, look)
        return findings

    def verify(self, work: Callable[[Superuser], None], **means: Any) -> Verification:
        found: Verification = self.tampered(work, lambda connection: verify(connection, **means))
        return found


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    if request.param == "sqlite":
        url = sqlite_url(tmp_path_factory.mktemp("history") / "bridge.db")
    else:
        url = request.getfixturevalue("postgres").create_database()
    made = History(url)
    with closing(made.database):
        yield made


def nothing(_: Superuser) -> None:
    pass


def edit_and_rehash_it(superuser: Superuser) -> None:
    superuser.edit(5)
    superuser.rehash(5, 5)


def edit_and_rehash_all(superuser: Superuser) -> None:
    superuser.edit(5)
    superuser.rehash(5)


def edit_the_newest_and_rehash(superuser: Superuser) -> None:
    superuser.edit(25)
    superuser.rehash(25)


def delete_and_rehash(superuser: Superuser) -> None:
    superuser.delete(5)
    superuser.renumber(6, by=-1)
    superuser.rehash(5)


def swap_and_rehash(superuser: Superuser) -> None:
    superuser.swap(5, 6)
    superuser.rehash(5)


def insert(superuser: Superuser) -> None:
    superuser.renumber(5, by=1)
    superuser.forge(5)


def insert_and_rehash(superuser: Superuser) -> None:
    insert(superuser)
    superuser.rehash(5)


def append_forged(superuser: Superuser) -> None:
    last = superuser.rows()[-1]
    superuser.forge(last["seq"] + 1, at=last["at"])
    superuser.rehash(last["seq"] + 1)


def write(superuser: Superuser, key: bytes | None) -> None:
    """Go on as the bridge would, with the key or as somebody without it."""
    for number in range(10):
        if key is not None:
            Journal(ManualClock(), key).append(superuser.connection, [ServerStopped(f"later {number}")], ALICE)
        else:
            append_forged(superuser)


def cut_and_go_on(superuser: Superuser) -> None:
    superuser.cut_after(16)
    write(superuser, KEY)


def cut_and_forge(superuser: Superuser) -> None:
    superuser.cut_after(16)
    write(superuser, None)


def rewrite_without_macs(superuser: Superuser) -> None:
    superuser.run("update events set actor = 'mallory', mac = null")
    superuser.rehash(1)


def backdate(superuser: Superuser) -> None:
    superuser.run("update events set at = at - 1 where seq = 5")
    superuser.rehash(5)


def forge_archive(superuser: Superuser) -> None:
    """Cut the beginning off as if it were archived."""
    superuser.run(
        "insert into archives select seq, 1, at, hash, mac, 'old.jsonl', '0', at from events where seq = 6",
        "delete from events where seq <= 6",
    )


def forge_archive_with_its_event(superuser: Superuser) -> None:
    sealed = superuser.rows()[5]
    forge_archive(superuser)
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    told = HistoryArchived(1, 6, sealed["at"], sealed["hash"], "old.jsonl", "0", 0, empty)
    last = superuser.rows()[-1]
    after = (
        '{"file":"%s","first_seq":1,"hash":"%s","kept":0,"kept_digest":"%s","sealed_upto":6,"sha256":"0","until":%d}'
    )
    superuser.forge(
        last["seq"] + 1,
        at=last["at"],
        action=told.action,
        after=after % (told.file, told.hash, told.kept_digest, told.until),
    )
    superuser.rehash(last["seq"] + 1)


@pytest.mark.parametrize(
    ("work", "findings"),
    [
        (nothing, Findings(None, None, None, None)),
        (lambda it: it.edit(5), Findings(5, 5, 5, 5)),
        (lambda it: it.run("update events set at = at + 1 where seq = 5"), Findings(5, 5, 5, 5)),
        (lambda it: it.run("update events set after = null where seq = 5"), Findings(5, 5, 5, 5)),
        (lambda it: it.run("update events set version = 7 where seq = 5"), Findings(5, 5, 5, 5)),
        (lambda it: it.run("update events set hash = 'f' where seq = 5"), Findings(5, 5, 5, 5)),
        (lambda it: it.run("update events set reason = 'no' where seq = 25"), Findings(25, 25, 25, 25)),
        (edit_and_rehash_it, Findings(6, 5, 6, 5)),
        (edit_and_rehash_all, Findings(None, 5, ANCHORED, 5)),
        (edit_the_newest_and_rehash, Findings(None, 25, None, 25)),
        (backdate, Findings(5, 5, 5, 5)),
        (lambda it: it.delete(5), Findings(5, 5, 5, 5)),
        (lambda it: it.delete(1), Findings(1, 1, 1, 1)),
        (delete_and_rehash, Findings(None, 5, ANCHORED, 5)),
        (lambda it: it.swap(5, 6), Findings(5, 5, 5, 5)),
        (swap_and_rehash, Findings(None, 5, ANCHORED, 5)),
        (lambda it: it.cut_after(16), Findings(None, None, 17, 17)),
        (lambda it: it.cut_after(25), Findings(None, None, None, None)),
        (cut_and_go_on, Findings(None, None, ANCHORED, ANCHORED)),
        (cut_and_forge, Findings(17, 17, 17, 17)),
        (insert, Findings(5, 5, 5, 5)),
        (insert_and_rehash, Findings(5, 5, 5, 5)),
        (append_forged, Findings(END, END, END, END)),
        (lambda it: it.forge(99), Findings(END, END, END, END)),
        (lambda it: it.forge(0), Findings(0, 0, 0, 0)),
        (lambda it: it.run("update events set mac = null where seq = 5"), Findings(5, 5, 5, 5)),
        (lambda it: it.run("update events set mac = null"), Findings(None, 1, None, 1)),
        (lambda it: it.run("update events set mac = 'f' where seq = 5"), Findings(None, 5, None, 5)),
        (rewrite_without_macs, Findings(None, 1, ANCHORED, ANCHORED)),
        (forge_archive, Findings(1, 1, 1, 1)),
        (forge_archive_with_its_event, Findings(END, END, END, END)),
    ],
)
def test_a_tampered_history(history: History, work: Callable[[Superuser], None], findings: Findings) -> None:
    assert history.findings(work) == findings


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("update models set policy = '{}'", "models m: policy is '{}', the events say '{\"specific\":[1]}'."),
        ("update models set base_path = '/x'", "models m: base_path is '/x', the events say '/m'."),
        ("update models set present = false", "models m: present is False, the events say True."),
        ("update version_labels set version = 9 where label = 'canary'", "version_labels label:m/canary: version is 9"),
        ("delete from version_labels where label = 'stable'", "label:m/stable: the row is missing"),
        (
            "insert into version_labels values ('m', 'new', 1, 1)",
            "label:m/new: there is a row, but no event tells of it",
        ),
        ("update model_versions set fingerprint = 'g'", "model_versions m/1: fingerprint is 'g', the events say 'f'."),
        ("update model_versions set state = 50", "model_versions m/1: state is 50"),
        ("delete from model_versions", "model_versions m/1: the row is missing"),
        ("update registered_models set path = '/x'", "registered_models r: path is '/x', the events say '/r'."),
        ("update vmodels set target_failed = true", "vmodels v: target_failed is True"),
        ("delete from vmodels", "vmodels v: the row is missing"),
        ("update instances set grpc = 'evil:1'", "instances t: grpc is 'evil:1'"),
        ("update live set state = 'x' where selector = 'model:m'", "live model:m: state is 'x'"),
        ("delete from live where selector = 'model:m'", "live model:m: the row is missing"),
        ("delete from subjects where subject = 'vmodel:v'", "subjects vmodel:v/wanted: the row is missing"),
        ("update meta set epoch = 2", "meta : there is a row, but no event tells of it"),
    ],
)
def test_tampered_rows(history: History, statement: str, difference: str) -> None:
    found = history.verify(lambda it: it.run(statement))
    assert found.broken is None
    assert not found.whole
    assert len(found.differences) == 1
    assert difference in str(found.differences[0])


def drop_guard(superuser: Superuser) -> None:
    sqlite = superuser.connection.dialect.name == "sqlite"
    name = "events_update" if sqlite else "events_change"
    superuser.connection.exec_driver_sql(f"drop trigger {name}" + ("" if sqlite else " on events"))


def weaken_guard(superuser: Superuser) -> None:
    connection = superuser.connection
    if connection.dialect.name == "sqlite":
        drop_guard(superuser)
        connection.exec_driver_sql("create trigger events_update before update on events begin select 1; end")
    else:
        connection.exec_driver_sql("alter table events disable trigger events_change")


@pytest.mark.parametrize("work", [drop_guard, weaken_guard])
def test_guards_that_are_gone(history: History, work: Callable[[Superuser], None]) -> None:
    found = history.verify(work)
    assert len(found.unguarded) == 1
    assert (found.broken, found.whole) == (None, False)


def test_a_whole_history(history: History) -> None:
    found = history.verify(nothing, key=KEY, anchor=history.anchor)
    assert found.whole
    assert (found.events, found.last, found.epoch, found.sealed_upto) == (END - 1, END - 1, 1, 0)
    assert (found.unchecked, found.differences, found.unguarded) == ((), (), ())


@pytest.mark.parametrize(
    ("means", "blind_spots"),
    [
        ({}, ["rewritten with new hashes: that needs --audit_key_file", "cut off: that needs --anchor"]),
        ({"key": KEY}, ["cut off: that needs --anchor"]),
        ({"anchor": True}, ["new hashes after event #20: that needs --audit_key_file", "after event #20 were cut off"]),
        ({"key": KEY, "anchor": True}, ["newest events after event #20 were cut off: that needs a newer anchor"]),
    ],
)
def test_what_is_not_found_is_said(history: History, means: dict[str, Any], blind_spots: list[str]) -> None:
    if means.get("anchor"):
        means = {**means, "anchor": history.anchor}
    said = [sentence for sentence in history.verify(nothing, **means).promises if sentence.startswith("Not found")]
    assert len(said) == len(blind_spots)
    for sentence, blind_spot in zip(said, blind_spots, strict=True):
        assert blind_spot in sentence


def test_an_anchor_that_is_none(history: History) -> None:
    with pytest.raises(FailedPrecondition, match="of deployment ffffffff, the database of"):
        history.verify(nothing, anchor=replace(history.anchor, deployment="ffffffff", mac=None))
    with pytest.raises(InvalidArgument, match="was not made with this audit key"):
        history.verify(nothing, key=KEY, anchor=replace(history.anchor, seq=19))
    with pytest.raises(InvalidArgument, match="was not made with this audit key"):
        history.verify(nothing, key=b"another", anchor=history.anchor)


def test_another_key(history: History) -> None:
    assert "somebody without this audit key" in str(history.verify(nothing, key=b"another").broken)


def test_a_forged_event_that_makes_no_sense(history: History) -> None:
    def work(superuser: Superuser) -> None:
        superuser.run("update events set after = 'null' where action = 'label set'", "update events set mac = null")
        superuser.rehash(1)

    assert "says nothing that this release can read" in str(history.verify(work).broken)


def test_memory_does_not_grow_with_the_events(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "bridge.db")
    schema.upgrade(url, clock=ManualClock())
    Registry.open(url).close()
    peaks: list[int] = []
    with closing(Database.connect(url)) as database:
        for number in range(2):
            Filler(2_000 + 6_000 * number, 5, ManualClock().now() + number * 1_000_000, 1).fill(database)
            tracemalloc.start()
            assert database.read(verify).broken is None
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
