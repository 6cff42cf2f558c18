"""A long history for tests, written in bulk with a valid chain: models with versions, labels that move, instances."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from sqlalchemy.engine import Connection

from bridge.registry import canonical
from bridge.registry.database import Database
from bridge.registry.journal import GENESIS, digest
from bridge.registry.tables import events

ACTORS = ("alice", "bob", "carol", "dave", "bridge")
VERSIONS = 4
BATCH = 10_000
COLUMNS = (
    "seq",
    "at",
    "actor",
    "source",
    "subject",
    "action",
    "before",
    "after",
    "reason",
    "request_id",
    "version",
    "hash",
)


@dataclass(frozen=True)
class Filler:
    """`events` events about `models` models with two labels each, `step` microseconds apart."""

    events: int
    models: int
    begin: int
    step: int

    def fill(self, database: Database) -> None:
        """Append to a history whose events are all before `begin`."""
        rows = self._rows(database.read(_head))
        while batch := list(islice(rows, BATCH)):
            database.write(partial(_insert, batch))

    def _rows(self, head: tuple[int, str]) -> Iterator[dict[str, Any]]:
        dice = random.Random(7)
        seq, previous = head
        for number in range(self.events):
            row = self._event(dice, number)
            row |= {"seq": seq + 1 + number, "at": self.begin + number * self.step}
            previous = digest(previous, row)
            yield {name: row.get(name) for name in COLUMNS} | {"hash": previous}

    def _event(self, dice: random.Random, number: int) -> dict[str, Any]:
        model, version = f"model-{dice.randrange(self.models)}", 1 + dice.randrange(VERSIONS)
        label = f"label:{model}/{dice.choice(('stable', 'canary'))}"
        kind = dice.randrange(10)
        if kind == 0:
            policy = {"policy": {"latest": {"num_versions": version}}, "base_path": f"/models/{model}", "labels": {}}
            return _row(dice, f"model:{model}", "policy set", policy, None)
        if kind < 3:
            return _row(dice, label, "label set", {"version": version}, version)
        state = {"model": model, "version": version, "versions": [version], "fingerprint": "f" * 64, "path": "/m"}
        if kind < 6:
            return _row(dice, label if kind == 3 else f"model:{model}", "live moved", state, version)
        state = {"state": "AVAILABLE", "code": 0, "message": ""}
        seen = {"version": version, **state, "path": f"/m/{number}", "fingerprint": "f" * 64, "size": 7}
        return _row(dice, f"model:{model}", "version observed", seen, version)


def _row(dice: random.Random, subject: str, action: str, after: Any, version: int | None) -> dict[str, Any]:
    return {
        "actor": dice.choice(ACTORS),
        "source": "CLI",
        "subject": subject,
        "action": action,
        "before": None,
        "after": canonical.dumps(after),
        "reason": "because",
        "request_id": "",
        "version": version,
    }


def _head(connection: Connection) -> tuple[int, str]:
    row = connection.execute(events.select().order_by(events.c.seq.desc()).limit(1)).one_or_none()
    return (row.seq, row.hash) if row is not None else (0, GENESIS)


def _insert(rows: list[dict[str, Any]], connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        connection.execute(events.insert(), rows)
        return
    raw: Any = connection.connection.driver_connection
    with raw.cursor().copy(f"copy events ({', '.join(COLUMNS)}) from stdin") as copy:
        for row in rows:
            copy.write_row([row[name] for name in COLUMNS])
