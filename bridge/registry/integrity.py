"""The integrity of one database's history, asked from outside of the registry that serves: it may run beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bridge.clock import Clock, SystemClock
from bridge.registry import anchors, archiving, dumping, exporting, new_file, schema, verification
from bridge.registry.anchors import Anchor
from bridge.registry.archiving import ArchiveOutcome
from bridge.registry.database import Database
from bridge.registry.journal import Journal
from bridge.registry.records import Actor
from bridge.registry.transaction import Transactions
from bridge.registry.verification import Progress, Verification


@dataclass(frozen=True, slots=True)
class Integrity:
    """Opens the database at `url` for each call; `key` is the audit key. Each call raises Unavailable while the
    database does not answer, and FailedPrecondition for another schema."""

    url: str
    key: bytes | None = None

    def verify(
        self, anchor: Anchor | None = None, archived: Sequence[Path] = (), progress: Progress | None = None
    ) -> Verification:
        """See `verification.verify`. Reads one snapshot; takes some 20 s for 1,000,000 events."""
        with closing(self._open()) as database:
            return database.study(
                lambda connection: verification.verify(connection, self.key, anchor, archived, progress)
            )

    def anchor(self) -> Anchor:
        """Where the history is now. Raises FailedPrecondition while it has no event."""
        with closing(self._open()) as database:
            return database.read(lambda connection: anchors.read_anchor(connection, self.key))

    def export(self, since: int | None = None, until: int | None = None) -> Iterator[str]:
        """See `exporting.export`; the database is closed with the last line."""
        database = self._open()
        try:
            lines = exporting.export(database, since, until)
        except BaseException:
            database.close()
            raise
        return _closing(lines, database)

    def dump(self, target: Path) -> Path:
        """Write every table to the new file `target`, which goes into either kind of database by `Restore`."""
        with closing(self._open()) as database:
            database.study(lambda connection: new_file.write(target, dumping.lines(connection)))
        return target

    def archive(
        self,
        before: int,
        target: Path,
        actor: Actor,
        progress: Progress | None = None,
        clock: Clock | None = None,
    ) -> ArchiveOutcome:
        """See `archiving.archive`."""
        clock = clock or SystemClock()
        with closing(self._open()) as database:
            transactions = Transactions(database, clock, Journal(clock, self.key))
            return archiving.archive(database, transactions, before, target, actor, self.key, progress)

    def _open(self) -> Database:
        database = Database.connect(self.url)
        try:
            schema.require_current(database)
        except BaseException:
            database.close()
            raise
        return database


def _closing(lines: Iterator[str], database: Database) -> Iterator[str]:
    with closing(database):
        yield from lines
