"""The schema's revision: what the database has, what this release needs, and the way from one to the other."""

from __future__ import annotations

import logging
import pkgutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.clock import Clock, SystemClock
from bridge.errors import AlreadyExists, FailedPrecondition, InvalidArgument
from bridge.registry.database import EVENTS_LOCK, Database, sqlite_path
from bridge.registry.events import DatabaseMigrated
from bridge.registry.journal import Journal
from bridge.registry.migrations import versions
from bridge.registry.records import Actor
from bridge.registry.tables import schema_compatibility

logger = logging.getLogger(__name__)

UPGRADER = Actor("bridge", "CLI")

BASE = "base"
"""Alembic's name for no tables at all."""

EMPTY = ""
"""The revision of a database without our tables."""


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """`revision` is what the database has, empty for none; `head` what this release needs.

    `works_with` is set by a newer release: the newest revision of the oldest release that works with its schema.
    """

    database: str
    revision: str
    head: str
    known: bool
    works_with: str = ""

    @property
    def current(self) -> bool:
        """Whether this release works with the database: it has the same schema, or one that was only added to."""
        return self.revision == self.head or (not self.known and bool(self.works_with) and self.works_with <= self.head)


def status(url: str) -> SchemaStatus:
    """The schema of the database at `url`. Raises Unavailable if it does not answer."""
    path = sqlite_path(url)
    if path is not None and not path.exists():
        return SchemaStatus(str(path), EMPTY, head(), True)
    with closing(Database.connect(url)) as database:
        return _status(database)


def upgrade(
    url: str,
    *,
    migrate: bool = False,
    actor: Actor = UPGRADER,
    clock: Clock | None = None,
    audit_key: bytes | None = None,
    revision: str = "head",
) -> SchemaStatus:
    """Bring the database at `url` to this release's schema.

    A new database gets it. An older SQLite file is copied first; an older PostgreSQL database is migrated only with
    `migrate`, since other bridges may use it. Raises FailedPrecondition for that, and for a newer schema always.
    """
    clock = clock or SystemClock()
    journal = Journal(clock, audit_key)
    target = head() if revision == "head" else revision
    with closing(Database.connect(url)) as database:
        before = _status(database)
        if before.current and revision == "head":
            return before
        refuse_newer(before)
        if before.revision == target:
            return before
        if before.revision != EMPTY:
            _prepare(url, database, before, migrate, clock)

        def work(connection: Connection) -> None:
            # Another bridge may have migrated while this one waited for the schema's lock.
            if _revision(connection) == target:
                return
            _scripts().upgrade(connection, target)
            database.lock(connection, EVENTS_LOCK)
            journal.append(connection, [DatabaseMigrated(before.revision, target)], actor)

        database.alter(work)
        return _status(database)


def downgrade(
    url: str,
    revision: str = BASE,
    *,
    destroy_history: bool = False,
    actor: Actor = UPGRADER,
    clock: Clock | None = None,
    audit_key: bytes | None = None,
) -> SchemaStatus:
    """Take the schema back to `revision`.

    Raises FailedPrecondition while events exist unless `destroy_history`, InvalidArgument for an unknown revision.
    """
    if revision not in {BASE, *revisions()}:
        raise InvalidArgument(f"There is no schema revision '{revision}'.")
    journal = Journal(clock or SystemClock(), audit_key)
    with closing(Database.connect(url)) as database:
        before = _status(database)
        refuse_newer(before)

        def work(connection: Connection) -> None:
            _scripts().downgrade(connection, revision, destroy_history=destroy_history)
            if revision != BASE:
                database.lock(connection, EVENTS_LOCK)
                journal.append(connection, [DatabaseMigrated(before.revision, revision)], actor)

        database.alter(work)
        return _status(database)


def require_current(database: Database) -> None:
    """Raises FailedPrecondition unless the database has this release's schema, or a newer one that works with it."""
    found = _status(database)
    if found.current:
        return
    refuse_newer(found)
    raise FailedPrecondition(
        f"The schema of {found.database} is at revision {found.revision or 'none'}, this release needs "
        f"{found.head}; run `bridge db upgrade`."
    )


def backup(url: str, target: Path | None = None, clock: Clock | None = None) -> Path:
    """Copy a SQLite database while it may be in use; the copy lies beside it unless `target` says where.

    Raises InvalidArgument for PostgreSQL, AlreadyExists if `target` exists.
    """
    path = sqlite_path(url)
    if path is None:
        raise InvalidArgument("A PostgreSQL database is backed up with pg_dump.")
    if not path.exists():
        raise FailedPrecondition(f"There is no database '{path}'.")
    return _copy(path, target or _backup_path(path, status(url).revision, clock or SystemClock()))


def create(connection: Connection, revision: str = "head") -> None:
    """Make the tables in an empty database, or bring them to `revision`, as a part of what the caller does there."""
    _scripts().upgrade(connection, revision)


def drop(connection: Connection) -> None:
    """Take every table away, with all that is in it, as a part of what the caller does there."""
    _scripts().downgrade(connection, BASE, destroy_history=True)


def head() -> str:
    """The newest revision that this release knows."""
    return max(revisions())


def revisions() -> frozenset[str]:
    """Every revision that this release knows, read off the scripts' names.

    Alembic would tell as well, at the price of 11 MB in every serving process.
    """
    return frozenset(module.name[1:5] for module in pkgutil.iter_modules(versions.__path__))


def _scripts() -> ModuleType:
    """The scripts' runner, which brings Alembic along."""
    return import_module("bridge.registry.migration_scripts")


def _status(database: Database) -> SchemaStatus:
    revision, works_with = database.read(lambda connection: (_revision(connection), _works_with(connection)))
    return SchemaStatus(database.name, revision, head(), revision in {EMPTY, *revisions()}, works_with)


def _revision(connection: Connection) -> str:
    if not sa.inspect(connection).has_table("alembic_version"):
        return EMPTY
    return connection.execute(sa.text("select version_num from alembic_version")).scalar() or EMPTY


def _works_with(connection: Connection) -> str:
    if not sa.inspect(connection).has_table(schema_compatibility.name):
        return ""
    said = sa.select(schema_compatibility.c.works_with).where(schema_compatibility.c.revision == _revision(connection))
    return str(connection.execute(said).scalar() or "")


def refuse_newer(found: SchemaStatus) -> None:
    if not found.known:
        raise FailedPrecondition(
            f"The schema of {found.database} is at revision {found.revision}, which a newer release made; "
            f"this one knows up to {found.head}."
        )


def _prepare(url: str, database: Database, found: SchemaStatus, migrate: bool, clock: Clock) -> None:
    path = sqlite_path(url)
    if path is not None:
        logger.info(
            "copied %s to %s before its migration", path, _copy(path, _backup_path(path, found.revision, clock))
        )
    elif not migrate:
        raise FailedPrecondition(
            f"The schema of {database.name} is at revision {found.revision}, this release needs {found.head}; "
            "start with --migrate or run `bridge db upgrade`, once every bridge on it can work with that."
        )


def _backup_path(path: Path, revision: str, clock: Clock) -> Path:
    at = datetime.fromtimestamp(clock.now() / 1e6, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return path.with_name(f"{path.name}.backup-{revision or 'none'}-{at}")


def _copy(path: Path, target: Path) -> Path:
    if target.exists():
        raise AlreadyExists(f"The backup '{target}' exists already.")
    partial = target.with_name(f".{target.name}.partial")
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as copy:
            source.backup(copy)
        partial.replace(target)
    except (sqlite3.Error, OSError) as error:
        partial.unlink(missing_ok=True)
        raise FailedPrecondition(f"The database '{path}' cannot be copied to '{target}': {error}.") from error
    return target
