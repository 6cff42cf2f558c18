"""What the database works out of the events: slots, subjects, what is live, and the views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

from bridge.registry import Actor, ModelSpec, Owner, Registry, canonical, schema, slots
from bridge.registry.database import Database
from bridge.registry.events import Event
from bridge.registry.history_records import Aspect
from bridge.registry.journal import Journal
from bridge.registry.live import Move, ServedVersion
from tests.registry.conftest import ManualClock
from tests.registry.test_events import EXAMPLES, subclasses

ALICE = Actor("alice", "CLI", "a better model")
SECOND = 1_000_000
T0 = "2023-11-14T22:13:20"

WANTED_NOTES = {"rolled back"}
"""They tell of a wish whose effect other events tell."""


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with closing(Database.connect(url)) as opened:
        yield opened


def rows(database: Database, query: str) -> list[Any]:
    return [tuple(row) for row in database.read(lambda connection: connection.execute(sa.text(query)).all())]


def test_each_event_falls_into_the_slot_of_its_aspect(database: Database) -> None:
    journal, happened = Journal(ManualClock()), [example[0] for example in EXAMPLES]
    database.write(lambda connection: journal.append(connection, happened, ALICE))
    found = rows(database, "select slot from events where action <> 'database migrated' or seq > 1 order by seq")
    for event, (slot,) in zip(happened, found, strict=True):
        assert slot in expected(event), (event.action, slot)


def expected(event: Event) -> set[str]:
    if event.aspect is Aspect.LIVE:
        return {slots.LIVE}
    if event.aspect is Aspect.WANTED:
        return {slots.NOTE} if event.action in WANTED_NOTES else {slots.WANTED, slots.REGISTERED, slots.PIN}
    return {slots.NOTE, slots.STATE, slots.PROCESS, slots.version_slot(1)}


def test_slots_name_actions_that_there_are() -> None:
    known = {kind.action for kind in subclasses(Event) if "action" in vars(kind)}
    assert {action for actions in slots.ACTIONS.values() for action in actions} <= known


def test_subjects_and_what_is_live_follow_the_events(registry: Registry, database: Database) -> None:
    registry.put_model(ModelSpec("m", "/m", labels={"stable": 1}), Owner.CONFIG, ALICE)
    registry.record_version("m", 1, 10, path="/m/1", actor=ALICE)
    for version in (1, 2):
        registry.record_moves([Move("model:m", ServedVersion("m", version, (version,)))], ALICE)
    assert rows(database, "select subject, slot from subjects where subject <> 'server' order by subject, slot") == [
        ("label:m/stable", "wanted"),
        ("model:m", "live"),
        ("model:m", "version 1"),
        ("model:m", "wanted"),
    ]
    (last,) = registry.events(action="live moved", newest_first=True, limit=1)
    ((selector, state, since, seq),) = rows(database, "select * from live")
    assert (selector, canonical.loads(state), since, seq) == ("model:m", last.after, last.at, last.seq)


def test_events_of_an_earlier_release_are_found(empty_url: str) -> None:
    clock = ManualClock()
    schema.upgrade(empty_url, revision="0004", clock=clock)
    old = {
        "seq": 2,
        "at": clock.time,
        "actor": "bridge",
        "source": "poller",
        "subject": "model:m",
        "action": "version observed",
        "after": '{"state":"END","version":3}',
        "reason": "",
        "request_id": "",
        "hash": "0" * 64,
    }
    names = ", ".join(f'"{name}"' for name in old)
    insert = sa.text(f"insert into events ({names}) values ({', '.join(f':{name}' for name in old)})")
    with closing(Database.connect(empty_url)) as database:
        database.write(lambda connection: connection.execute(insert, old))
    schema.upgrade(empty_url, migrate=True, clock=clock)
    with closing(Registry.open(empty_url, clock=clock)) as registry:
        (model,) = registry.state_at(clock.time, "model:m").subjects
        assert [fact.state for fact in model.observed] == [{"state": "END", "version": 3}]


def test_views(registry: Registry, database: Database, clock: ManualClock) -> None:
    registry.begin_process("host", ALICE)
    registry.put_model(ModelSpec("m", "/m", labels={"stable": 1}), Owner.CONFIG, ALICE)
    registry.record_version("m", 1, 10, path="/m/1", fingerprint="f", actor=ALICE)
    clock.advance(SECOND)
    registry.record_version("m", 1, 30, actor=ALICE)
    registry.record_moves([Move("model:m", ServedVersion("m", 1, (1,)))], ALICE)
    clock.advance(SECOND)
    registry.set_label("m", "stable", 2, ALICE)
    registry.record_moves([Move("model:m", None)], ALICE)
    begin = clock.time - 2 * SECOND
    live = "select subject, model, version, path, fingerprint, started_at, ended_at from live_intervals"
    assert rows(database, live) == [("model:m", "m", 1, "/m/1", "f", begin + SECOND, begin + 2 * SECOND)]
    versions = "select model, version, state, path, started_at, ended_at from versions_history order by seq"
    assert rows(database, versions) == [
        ("m", 1, "START", "/m/1", begin, begin + SECOND),
        ("m", 1, "AVAILABLE", "/m/1", begin + SECOND, None),
    ]
    labels = "select label, version, started_at, ended_at, actor from labels_history order by seq"
    assert rows(database, labels) == [
        ("m/stable", 1, begin, begin + 2 * SECOND, "alice"),
        ("m/stable", 2, begin + 2 * SECOND, None, "alice"),
    ]
    history = "select time, actor, action from history where subject = 'model:m' order by seq limit 1"
    ((time, actor, action),) = rows(database, history)
    assert str(time).replace(" ", "T").startswith(T0)
    assert (actor, action) == ("alice", "model added")
