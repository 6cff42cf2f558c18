"""A database put back from a backup: all of it or nothing, and the beginning of a new epoch of its history."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.clock import Clock, SystemClock
from bridge.errors import FailedPrecondition
from bridge.registry import anchors, dumping, guards, new_file, schema, verification
from bridge.registry.anchors import Anchor
from bridge.registry.database import POSTGRESQL_ARGUMENTS, Database, sqlite_path, sqlite_url
from bridge.registry.integrity_events import HistoryRestored
from bridge.registry.journal import Journal
from bridge.registry.records import Actor
from bridge.registry.sealing import read_seal
from bridge.registry.tables import events, meta

GOING_SECONDS = 1.0

SQLITE_MAGIC = b"SQLite format 3\0"

Progress = Callable[[int, int], None]
"""Told how many rows are in, and 0."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The anchor that the restored history goes on from, its epoch, and where a database that was there is now."""

    continues: Anchor
    epoch: int
    moved_to: str = ""


@dataclass(frozen=True, slots=True)
class Restore:
    """The restoring of the backup `file` by `actor`. `key` is the audit key of the history.

    With `destroy_history` a database goes whose newest events the backup has not.
    """

    file: Path
    actor: Actor
    key: bytes | None = None
    destroy_history: bool = False
    clock: Clock = field(default_factory=SystemClock)
    progress: Progress | None = None

    def run(self, url: str) -> Restored:
        """Replace the database at `url`, if there is one. The caller knows that no bridge uses a SQLite file.

        Raises FailedPrecondition for a database that is in use, is newer than this release or has events that the
        backup has not, and for a backup that is newer or whose history is broken; InvalidArgument for another file.
        """
        found = schema.status(url)
        schema.refuse_newer(found)
        path = sqlite_path(url)
        if path is not None:
            return self._replace_file(path, found.revision != schema.EMPTY)
        if _is_sqlite(self.file):
            raise FailedPrecondition(
                f"'{self.file}' is a SQLite file; a backup made by `bridge db backup --portable` goes into PostgreSQL."
            )
        with closing(Database.connect(url)) as database:
            _refuse_in_use(database)
            return database.alter(lambda connection: self._replace_tables(connection, found.revision != schema.EMPTY))

    def _replace_file(self, path: Path, used: bool) -> Restored:
        """Build the new file beside the old one, and have it take that name in one step."""
        partial = path.with_name(f".{path.name}.restoring")
        _remove_sqlite(partial)
        try:
            if _is_sqlite(self.file):
                _copy_sqlite(self.file, partial)
            restored = self._build(sqlite_url(partial), sqlite_url(path) if used else "")
            _sync(partial)
            moved_to = self._move_away(path) if used else ""
            partial.replace(path)
            new_file.sync_directory(path.parent)
        finally:
            _remove_sqlite(partial)
        return replace(restored, moved_to=moved_to)

    def _build(self, url: str, old: str) -> Restored:
        head = _head(old) if old else None
        with closing(Database.connect(url)) as database:
            dumped = not _is_sqlite(self.file)

            def work(connection: Connection) -> Restored:
                self._load(connection) if dumped else schema.create(connection)
                self._require_containing(connection, head)
                return self._begin_epoch(connection)

            return database.alter(work)

    def _move_away(self, path: Path) -> str:
        """Keep the old database under another name; it keeps its own until the new one takes it."""
        with closing(Database.connect(sqlite_url(path))):
            pass
        at = datetime.fromtimestamp(self.clock.now() / 1e6, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        kept = path.with_name(f"{path.name}.before-restore-{at}")
        os.link(path, kept)
        return str(kept)

    def _replace_tables(self, connection: Connection, used: bool) -> Restored:
        head = _read_head(connection) if used else None
        if used:
            schema.drop(connection)
        self._load(connection)
        self._require_containing(connection, head)
        return self._begin_epoch(connection)

    def _load(self, connection: Connection) -> None:
        header = dumping.read_header(self.file)
        if header.revision not in schema.revisions():
            raise FailedPrecondition(
                f"The backup '{self.file}' is of schema {header.revision}, which a newer release made; this one knows "
                f"up to {schema.head()}."
            )
        schema.create(connection, header.revision)
        guards.remove(connection)
        done = 0
        for _, page in dumping.load(connection, self.file):
            done += len(page)
            if self.progress is not None:
                self.progress(done, 0)
        guards.install(connection)
        schema.create(connection)

    def _require_containing(self, connection: Connection, head: tuple[int, str] | None) -> None:
        """Raises FailedPrecondition if the database that is replaced has events which the backup has not."""
        if head is None or self.destroy_history:
            return
        seq, hash = head
        seal = read_seal(connection)
        own = connection.execute(sa.select(events.c.hash).where(events.c.seq == seq)).scalar()
        if own != hash and (seal is None or (seal.upto, seal.hash) != head):
            raise FailedPrecondition(
                f"The database has events that the backup has not, the last of them #{seq}: restore into another "
                "database, or say --destroy-history."
            )

    def _begin_epoch(self, connection: Connection) -> Restored:
        found = verification.verify(connection, self.key)
        if found.broken is not None:
            raise FailedPrecondition(f"The history of the backup '{self.file}' is broken: {found.broken}")
        continues = anchors.read_anchor(connection)
        epoch = continues.epoch + 1
        connection.execute(meta.update().values(epoch=epoch))
        event = HistoryRestored(epoch, continues.to_json(), self.file.name)
        Journal(self.clock, self.key).append(connection, [event], self.actor)
        return Restored(continues, epoch)


def _refuse_in_use(database: Database) -> None:
    """Raises FailedPrecondition while bridges are connected; one that just ended may take a moment to be gone."""
    deadline = time.monotonic() + GOING_SECONDS
    while others := database.look(_count_others):
        if time.monotonic() > deadline:
            raise FailedPrecondition(f"The database is in use: bridges hold {others} connections; stop them first.")
        time.sleep(0.05)


def _count_others(connection: Connection) -> int:
    query = sa.text(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name = :name and pid <> pg_backend_pid()"
    )
    return int(connection.execute(query, {"name": POSTGRESQL_ARGUMENTS["application_name"]}).scalar_one())


def _head(url: str) -> tuple[int, str] | None:
    with closing(Database.connect(url)) as database:
        return database.read(_read_head)


def _read_head(connection: Connection) -> tuple[int, str] | None:
    row = connection.execute(sa.text("select seq, hash from events order by seq desc limit 1")).one_or_none()
    return None if row is None else (row.seq, row.hash)


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError as error:
        raise FailedPrecondition(f"The backup '{path}' cannot be read: {error.strerror}.") from error


def _copy_sqlite(source: Path, target: Path) -> None:
    found = schema.status(sqlite_url(source))
    schema.refuse_newer(found)
    if found.revision == schema.EMPTY:
        raise FailedPrecondition(f"'{source}' is no backup of a bridge: it has none of its tables.")
    with closing(sqlite3.connect(source)) as opened, closing(sqlite3.connect(target)) as copy:
        opened.backup(copy)


def _remove_sqlite(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
