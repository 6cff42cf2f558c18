"""How long the history takes to answer with many events: the state at a time costs the same whatever its age is."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridge.registry import Registry, schema
from bridge.registry.database import Database, sqlite_url
from bridge.registry.history_records import HistoryQuery
from tests.registry.conftest import ManualClock
from tests.registry.history_filler import Filler
from tests.support.postgres import PostgresServer

EVENTS = 1_000_000
MODELS = 200
"""With two labels and four versions each: 2,000 states at any time."""

SECOND = 1_000_000
STEP = 30 * SECOND
BEGIN = 1_700_000_000 * SECOND
ROUNDS = 15
MOST_MILLISECONDS = 50.0
SUBJECT = "model:model-3"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    if request.param == "sqlite":
        url = sqlite_url(tmp_path_factory.mktemp("scale") / Path("bridge.db"))
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database()
    schema.upgrade(url, clock=ManualClock(BEGIN))
    with closing(Database.connect(url)) as database:
        Filler(EVENTS, MODELS, BEGIN + SECOND, STEP).fill(database)
        # What autovacuum does by itself within a minute.
        database.write(lambda connection: connection.exec_driver_sql("analyze"))
    with closing(Registry.open(url, clock=ManualClock(BEGIN + EVENTS * STEP + SECOND))) as opened:
        yield opened


class Dice:
    """Times of any age, the same in each run."""

    def __init__(self) -> None:
        self._random = random.Random(1)

    def time(self) -> int:
        return BEGIN + SECOND + self._random.randrange(EVENTS) * STEP

    def times(self) -> tuple[int, int]:
        first, second = sorted((self.time(), self.time()))
        return first, second


QUESTIONS: dict[str, Callable[[Registry, Dice], Any]] = {
    "state of everything": lambda registry, dice: registry.state_at(dice.time()),
    "state of a model": lambda registry, dice: registry.state_at(dice.time(), SUBJECT),
    "state of a label": lambda registry, dice: registry.state_at(dice.time(), "label:model-3/stable"),
    "diff of a model": lambda registry, dice: registry.diff(*dice.times(), SUBJECT),
    "newest events": lambda registry, dice: registry.history(HistoryQuery()),
    "events of a model": lambda registry, dice: registry.history(HistoryQuery(subject=SUBJECT, until=dice.time())),
    "events of an actor": lambda registry, dice: registry.history(HistoryQuery(actor="alice", until=dice.time())),
    "what an actor did": lambda registry, dice: registry.history(
        HistoryQuery(actor="alice", action="policy set", since=dice.time())
    ),
    "events of nobody": lambda registry, dice: registry.history(HistoryQuery(actor="nobody")),
    "rare events": lambda registry, dice: registry.history(
        HistoryQuery(subject=SUBJECT, actor="bridge", action="label set")
    ),
    "events of a day": lambda registry, dice: registry.history(HistoryQuery(since=dice.time(), newest_first=False)),
    "live intervals": lambda registry, dice: registry.live_intervals(SUBJECT),
    "live intervals of a version": lambda registry, dice: registry.live_intervals(SUBJECT, 2),
    "subjects": lambda registry, dice: registry.subjects(),
    "find a subject": lambda registry, dice: registry.find_subject("model-3"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_answered_at_once(registry: Registry, question: str) -> None:
    dice, taken = Dice(), []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        assert QUESTIONS[question](registry, dice) is not None
        taken.append((time.perf_counter() - begin) * 1000)
    median = statistics.median(taken)
    print(f"{question}: {median:.2f} ms")
    assert median < MOST_MILLISECONDS


def test_all_of_it_is_verified(registry: Registry) -> None:
    assert registry.verify_chain() is None
