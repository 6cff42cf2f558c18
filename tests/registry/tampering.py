"""What somebody with all rights on the database could do to a history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.registry import guards
from bridge.registry.event_file import COLUMNS
from bridge.registry.journal import GENESIS, digest
from bridge.registry.tables import events

FAR = 1_000_000


class Superuser:
    """Changes events past their guards, which stand again afterwards, and computes hashes; the audit key is unknown."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def run(self, *statements: str) -> None:
        with self.unguarded():
            for statement in statements:
                self.connection.exec_driver_sql(statement)

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        guards.remove(self.connection)
        yield
        guards.install(self.connection)

    def edit(self, seq: int) -> None:
        self.run(f"update events set actor = 'mallory' where seq = {seq}")

    def delete(self, seq: int) -> None:
        self.run(f"delete from events where seq = {seq}")

    def cut_after(self, seq: int) -> None:
        self.run(f"delete from events where seq > {seq}")

    def swap(self, one: int, other: int) -> None:
        self.run(
            f"update events set seq = {FAR} where seq = {one}",
            f"update events set seq = {one} where seq = {other}",
            f"update events set seq = {other} where seq = {FAR}",
        )

    def renumber(self, first: int, by: int) -> None:
        """Move the events from `first` on."""
        self.run(
            f"update events set seq = seq + {FAR} where seq >= {first}",
            f"update events set seq = seq - {FAR - by} where seq > {FAR}",
        )

    def forge(self, seq: int, **values: Any) -> None:
        """Put in a copy of the first event with other values, without a mac."""
        row = dict(self.rows()[0]) | {"seq": seq, "actor": "mallory", "mac": None} | values
        with self.unguarded():
            self.connection.execute(events.insert().values({name: row[name] for name in COLUMNS}))

    def rehash(self, first: int, last: int = FAR) -> None:
        """Have the hashes from `first` to `last` fit again."""
        head = GENESIS
        with self.unguarded():
            for row in self.rows():
                if first <= row["seq"] <= last:
                    changed = events.update().where(events.c.seq == row["seq"])
                    self.connection.execute(changed.values(hash=digest(head, row)))
                    head = digest(head, row)
                else:
                    head = row["hash"]

    def rows(self) -> list[Any]:
        return list(self.connection.execute(sa.select(events).order_by(events.c.seq)).mappings())
