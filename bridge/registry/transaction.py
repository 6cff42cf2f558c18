"""One writing transaction: changed rows and the events that tell of them, committed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.clock import Clock
from bridge.registry import canonical, notices
from bridge.registry.database import EVENTS_LOCK, Database
from bridge.registry.events import Event
from bridge.registry.history_records import Aspect
from bridge.registry.journal import Journal
from bridge.registry.records import Actor

T = TypeVar("T")


class Transaction:
    """What a change works with. Rows that it reads stay locked until the end, so nothing that it compares can move.

    `now` is the time for its rows, microseconds UTC.
    """

    def __init__(self, database: Database, connection: Connection, now: int) -> None:
        self.connection = connection
        self.now = now
        self.emitted: list[Event] = []
        self._database = database

    def emit(self, event: Event) -> None:
        """Have `event` appended to the history by the commit."""
        self.emitted.append(event)

    @property
    def shared(self) -> bool:
        """Whether other bridges may use the database."""
        return self._database.shared

    def lock(self, key: int, *, shared: bool = False) -> None:
        """Hold the lock until the end; a `shared` one keeps out only those who want it for themselves."""
        self._database.lock(self.connection, key, shared=shared)

    def get(self, table: sa.Table, **key: Any) -> RowMapping | None:
        """The row with this key, locked, or None."""
        rows = self.find(table, **key)
        return rows[0] if rows else None

    def find(self, table: sa.Table, **key: Any) -> Sequence[RowMapping]:
        """The rows with these values, locked, in the order of the primary key."""
        query = sa.select(table).where(_matches(table, key)).order_by(*table.primary_key).with_for_update()
        return self.connection.execute(query).mappings().all()

    def insert(self, table: sa.Table, **values: Any) -> None:
        self.connection.execute(table.insert().values(_cleaned(values)))

    def update(self, table: sa.Table, key: Mapping[str, Any], **values: Any) -> None:
        self.connection.execute(table.update().where(_matches(table, key)).values(_cleaned(values)))

    def delete(self, table: sa.Table, **key: Any) -> None:
        self.connection.execute(table.delete().where(_matches(table, key)))

    def database_now(self) -> int:
        """The time that all users of this database share: PostgreSQL's clock, on SQLite this process's."""
        if not self._database.shared:
            return self.now
        return int(self.connection.execute(sa.select(self.database_clock())).scalar_one())

    def database_clock(self) -> sa.ColumnElement[int]:
        """That time as a part of a statement."""
        if not self._database.shared:
            return sa.literal(self.now)
        return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * 1_000_000, sa.BigInteger)


class Transactions:
    """Makes transactions on one database with one clock and one journal.

    `guard` runs first in each and may refuse it. Whoever listens is told of changes of what is wanted, by `origin`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        journal: Journal,
        guard: Callable[[Transaction], None] | None = None,
        origin: str = "",
    ) -> None:
        self._database = database
        self._clock = clock
        self._journal = journal
        self._guard = guard
        self._origin = origin

    def now(self) -> int:
        """Microseconds UTC."""
        return self._clock.now()

    def guarded(self, guard: Callable[[Transaction], None]) -> Transactions:
        return Transactions(self._database, self._clock, self._journal, guard, self._origin)

    def run(self, work: Callable[[Transaction], T], actor: Actor) -> T:
        """Run `work`, append its events, commit. The events' lock is taken last: sequence order is commit order."""
        written = 0

        def attempt(connection: Connection) -> T:
            nonlocal written
            transaction = Transaction(self._database, connection, self._clock.now())
            if self._guard is not None:
                self._guard(transaction)
            result = work(transaction)
            if transaction.emitted:
                transaction.lock(EVENTS_LOCK)
                self._journal.append(connection, transaction.emitted, actor)
                if any(event.aspect is Aspect.WANTED for event in transaction.emitted):
                    notices.notify(connection, notices.WANTED, self._origin)
            written = len(transaction.emitted)
            return result

        result = self._database.write(attempt)
        self._journal.written += written
        return result


def _matches(table: sa.Table, key: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    return sa.and_(sa.true(), *(table.c[name] == value for name, value in _cleaned(key).items()))


def _cleaned(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: canonical.clean(value) if isinstance(value, str) else value for name, value in values.items()}
