"""The history: append-only, chained, gapless, in commit order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

from bridge.errors import FailedPrecondition, Internal, InvalidArgument
from bridge.registry import Actor, ModelSpec, Owner, Registry
from bridge.registry.database import Database
from bridge.registry.events import ServerStarted, ServerStopped
from bridge.registry.journal import digest
from bridge.registry.tables import events
from tests.registry.conftest import ManualClock

KEY = b"a key of the auditors"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with closing(Database.connect(url)) as opened:
        yield opened


@pytest.fixture
def history(registry: Registry, actor: Actor) -> Registry:
    for number in range(5):
        registry.append(ServerStarted(f"1.{number}", {"port": number}), actor)
    return registry


def tamper(database: Database, *statements: str) -> None:
    """Change the events as somebody with all rights on the database could."""

    def work(connection: sa.Connection) -> None:
        if database.shared:
            connection.exec_driver_sql("alter table events disable trigger all")
        else:
            for change in ("update", "delete", "insert"):
                connection.exec_driver_sql(f"drop trigger events_{change}")
        for statement in statements:
            connection.exec_driver_sql(statement)

    database.write(work)


@pytest.mark.parametrize(
    "statement",
    [
        "update events set actor = 'mallory'",
        "update events set seq = seq + 100",
        "delete from events where seq = 2",
        "delete from events",
    ],
)
def test_the_database_refuses_changes(history: Registry, database: Database, statement: str) -> None:
    before = history.events()
    with pytest.raises(Internal, match="events is append-only"):
        database.write(lambda connection: connection.exec_driver_sql(statement))
    assert history.events() == before


COLUMNS = "seq, at, actor, source, subject, action, before, after, reason, request_id, hash, mac"
SAME_ROW = f"select {COLUMNS.replace('actor', repr('mallory'))} from events where seq = 2"


SQLITE_WAYS = [
    f"insert or replace into events ({COLUMNS}) {SAME_ROW}",
    f"replace into events ({COLUMNS}) {SAME_ROW}",
    f"insert into events ({COLUMNS}) {SAME_ROW.replace('seq,', '99,', 1)}",
    f"insert into events ({COLUMNS}) {SAME_ROW} and true on conflict do update set actor = 'mallory'",
]
POSTGRESQL_WAYS = [
    f"insert into events ({COLUMNS}) {SAME_ROW} on conflict (seq) do update set actor = 'mallory'",
    "truncate events",
    "set local session_replication_role = replica; delete from events",
    "set local session_replication_role = replica; truncate events",
    "merge into events e using (select 2 as seq) s on e.seq = s.seq when matched then update set actor = 'mallory'",
]


@pytest.mark.parametrize(
    ("dialect", "statement"),
    [
        *(("sqlite", statement) for statement in SQLITE_WAYS),
        *(pytest.param("postgresql", statement, marks=pytest.mark.integration) for statement in POSTGRESQL_WAYS),
    ],
    indirect=["dialect"],
)
def test_the_database_refuses_its_own_ways_round(history: Registry, database: Database, statement: str) -> None:
    before = history.events()
    with pytest.raises(Internal, match="events is append-only"):
        database.write(lambda connection: connection.exec_driver_sql(statement))
    assert history.events() == before


@pytest.mark.parametrize(
    ("statements", "broken"),
    [
        (["update events set actor = 'mallory' where seq = 3"], 3),
        (["update events set after = replace(after, '1.2', '9.9') where seq = 4"], 4),
        (["update events set after = null where seq = 4"], 4),
        (["update events set at = at + 1 where seq = 2"], 2),
        (["update events set hash = 'f' where seq = 6"], 6),
        (["delete from events where seq = 3"], 3),
        (["delete from events where seq = 1"], 1),
        (["update events set seq = 100 where seq = 2", "update events set seq = 2 where seq = 3"], 2),
        (["update events set seq = 0 where seq = 1"], 0),
    ],
)
def test_verify_names_the_first_broken_event(
    history: Registry, database: Database, statements: list[str], broken: int
) -> None:
    assert history.verify_chain() is None
    tamper(database, *statements)
    assert history.verify_chain() == broken


def rehash(database: Database, actor: str) -> None:
    """Rewrite the history and make every hash fit, which needs no key."""

    def work(connection: sa.Connection) -> None:
        head = "0" * 64
        for row in connection.execute(sa.select(events).order_by(events.c.seq)).mappings().all():
            changed = {**row, "actor": actor}
            head = digest(head, changed)
            connection.execute(events.update().where(events.c.seq == row["seq"]).values(actor=actor, hash=head))

    tamper(database)
    database.write(work)


def test_the_key_finds_a_rewritten_history(
    open_registry: Callable[..., Registry], database: Database, actor: Actor
) -> None:
    keyed = open_registry(audit_key=KEY)
    keyed.append(ServerStopped("SIGTERM"), actor)
    assert keyed.verify_chain() is None
    assert open_registry().verify_chain() is None
    assert open_registry(audit_key=b"another").verify_chain() == 2
    rehash(database, "mallory")
    assert open_registry().verify_chain() is None
    assert keyed.verify_chain() == 2


def test_macs_cannot_be_left_out(open_registry: Callable[..., Registry], database: Database, actor: Actor) -> None:
    keyed = open_registry(audit_key=KEY)
    assert keyed.verify_chain() == 1, "nothing is attested yet"
    keyed.append(ServerStopped("SIGTERM"), actor)
    with pytest.raises(FailedPrecondition, match="give it by --audit_key_file"):
        open_registry().append(ServerStopped("without the key"), actor)
    assert keyed.verify_chain() is None
    with pytest.raises(InvalidArgument, match="The audit key is empty"):
        open_registry(audit_key=b"")
    tamper(database, "update events set mac = null")
    assert keyed.verify_chain() == 1


def test_time_never_runs_backwards(registry: Registry, actor: Actor, clock: ManualClock) -> None:
    clock.time = 2_000_000_000_000_000
    registry.append(ServerStarted("1", {}), actor)
    clock.time = 1_000_000_000_000_000
    registry.append(ServerStopped("x"), actor)
    assert [event.at for event in registry.events()[-2:]] == [2_000_000_000_000_000] * 2


def test_events_are_filtered_and_paged(history: Registry, actor: Actor) -> None:
    history.put_model(ModelSpec("m", "/m"), Owner.ADMIN, actor)
    assert [event.seq for event in history.events(action="server started", after=2, limit=2)] == [3, 4]
    assert [event.seq for event in history.events(subject="server", newest_first=True, limit=2)] == [6, 5]
    assert [event.action for event in history.events(subject="model:m")] == ["model added"]
    assert history.events(subject="model:\0") == ()


def test_an_event_that_cannot_be_written_undoes_its_change(
    registry: Registry, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no event")

    with monkeypatch.context() as patch:
        patch.setattr(registry._journal, "append", broken)
        with pytest.raises(RuntimeError):
            registry.put_model(ModelSpec("m", "/m"), Owner.ADMIN, actor)
    assert registry.models() == ()


def test_many_writers_make_one_chain(open_registry: Callable[..., Registry], url: str, actor: Actor) -> None:
    """Eight writers with connections of their own; nothing is lost, doubled or out of order."""
    writers, rounds = 8, 12
    registries = [open_registry() for _ in range(writers)]
    registries[0].put_model(ModelSpec("shared", "/m"), Owner.ADMIN, actor)
    failures: list[BaseException] = []

    def write(number: int) -> None:
        mine = registries[number]
        try:
            for turn in range(rounds):
                mine.put_model(ModelSpec(f"m{turn}", "/m"), Owner.ADMIN, actor)
                mine.set_label("shared", "stable", number * rounds + turn, actor)
                mine.record_version("shared", turn, 10 * (turn % 5 + 1), actor=actor)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    history = registries[0].events(limit=10_000)
    assert [event.seq for event in history] == list(range(1, len(history) + 1))
    assert registries[0].verify_chain() is None
    labels = [event for event in history if event.action == "label set"]
    assert len(labels) == writers * rounds
    assert [event.before for event in labels] == [None, *(event.after for event in labels[:-1])]
    assert sum(event.action == "model added" for event in history) == rounds + 1
