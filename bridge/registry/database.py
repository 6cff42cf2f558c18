"""One SQL database: its connections, its transactions, and what its errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Connection, Engine, make_url

from bridge.errors import FailedPrecondition, Internal, InvalidArgument, Unavailable
from bridge.registry.filesystem import refuse_network

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 5
RETRIED_STATES = frozenset({"40001", "40P01", "23505"})
"""SQLSTATEs of a lost race: serialization failure, deadlock, unique violation."""

SQLITE_AWAY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")

BUSY_TIMEOUT_MS = 10_000
POSTGRESQL_OPTIONS = "-c statement_timeout=30000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=5000"
"""A bridge that is stopped in the middle of a transaction holds up the others for five seconds at most."""
POSTGRESQL_ARGUMENTS = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "triton-bridge",
}

EVENTS_LOCK = 0x7462_0001
CONFIG_LOCK = 0x7462_0002
SCHEMA_LOCK = 0x7462_0003
MODELMESH_LOCK = 0x7462_0004
LEADER_LOCK = 0x7462_0005
"""Writers of a leader share it; whoever takes the leadership holds it alone."""


class Database:
    """Transactions on SQLite or PostgreSQL with the same meaning on both. Safe for use by several threads."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self.dialect = engine.dialect.name
        self._engine = engine
        self._writer = engine.execution_options(writes=True)
        self._reader = engine if self.dialect == "sqlite" else engine.execution_options(**_SNAPSHOT)
        self._looker = engine if self.dialect == "sqlite" else engine.execution_options(isolation_level="AUTOCOMMIT")

    @classmethod
    def connect(cls, url: str) -> Database:
        """Prepare connections to `url`; PostgreSQL is not contacted yet.

        Raises InvalidArgument for a URL that is no database of ours, FailedPrecondition where the driver is missing or
        SQLite's file is on a network file system.
        """
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite":
            return cls(_sqlite_engine(parsed), str(sqlite_path(url)))
        return cls(_postgresql_engine(parsed), parsed.render_as_string(hide_password=True))

    @property
    def shared(self) -> bool:
        """Whether several bridges may use this database at once."""
        return self.dialect == "postgresql"

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent snapshot. Raises Unavailable while the database does not answer."""
        with self._translated(), self._reader.begin() as connection:
            return work(connection)

    def study(self, work: Callable[[Connection], T]) -> T:
        """As `read`, for work that may take its time over what it reads: nobody waits for a reader."""

        def patiently(connection: Connection) -> T:
            self._without_limits(connection)
            return work(connection)

        return self.read(patiently)

    def look(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which makes one statement: that sees one snapshot by itself, in a third of the round trips."""
        with self._translated(), self._looker.connect() as connection:
            return work(connection)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction and commit; run it again when it lost a race to another writer.

        Raises Unavailable while the database does not answer; nothing is written then, unless the connection broke
        during the commit itself.
        """
        with self._translated():
            for _ in range(ATTEMPTS - 1):
                try:
                    return self._write_once(work)
                except exc.DBAPIError as error:
                    if getattr(error.orig, "sqlstate", None) not in RETRIED_STATES:
                        raise
                    logger.debug("lost a race to another writer, trying again: %s", error.orig)
            return self._write_once(work)

    def alter(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which changes the schema, in one transaction while no other process does so."""
        with (
            self._translated(),
            self._writer.connect() as connection,
            self._foreign_keys_off(connection),
            connection.begin(),
        ):
            self._without_limits(connection)
            self.lock(connection, SCHEMA_LOCK)
            return work(connection)

    def lock(self, connection: Connection, key: int, *, shared: bool = False) -> None:
        """Hold the lock `key` until the transaction ends. On SQLite every writer holds the one lock already."""
        if self.shared:
            take = sa.func.pg_advisory_xact_lock_shared if shared else sa.func.pg_advisory_xact_lock
            connection.execute(sa.select(take(key)))

    def close(self) -> None:
        self._engine.dispose()

    def _without_limits(self, connection: Connection) -> None:
        if self.shared:
            for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
                connection.exec_driver_sql(f"set local {limit} = 0")

    def _write_once(self, work: Callable[[Connection], T]) -> T:
        with self._writer.begin() as connection:
            return work(connection)

    @contextmanager
    def _foreign_keys_off(self, connection: Connection) -> Iterator[None]:
        """SQLite rebuilds a table to alter it, which must not touch the rows that refer to it.

        The pragma has no effect inside a transaction, so it goes past SQLAlchemy, which would begin one.
        """
        raw: Any = connection.connection.dbapi_connection
        if self.dialect != "sqlite":
            yield
            return
        raw.execute("pragma foreign_keys = off")
        try:
            yield
        finally:
            raw.execute("pragma foreign_keys = on")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (exc.DBAPIError, exc.TimeoutError) as error:
            if _is_away(error):
                raise Unavailable(f"The database {self.name} does not answer: {_first_line(error)}.") from error
            raise Internal(f"The database {self.name} refused a statement: {_first_line(error)}.") from error


_SNAPSHOT: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


def parse_url(url: str) -> URL:
    """`url` with the driver that we use. Raises InvalidArgument."""
    try:
        parsed = make_url(url)
    except exc.ArgumentError as error:
        raise InvalidArgument(
            "The database URL cannot be read; write sqlite:////PATH or postgresql://USER:PASSWORD@HOST/NAME."
        ) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database and parsed.database != ":memory:":
        return parsed.set(drivername="sqlite")
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise InvalidArgument(
        f"The database URL '{parsed.render_as_string(hide_password=True)}' is neither a SQLite file nor PostgreSQL."
    )


def sqlite_url(path: Path) -> str:
    """The URL of the SQLite file `path`."""
    return URL.create("sqlite", database=str(path.absolute())).render_as_string(hide_password=False)


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite URL, None for PostgreSQL."""
    parsed = parse_url(url)
    return Path(parsed.database).absolute() if parsed.get_backend_name() == "sqlite" and parsed.database else None


def _sqlite_engine(url: URL) -> Engine:
    path = Path(str(url.database)).absolute()
    if not path.parent.is_dir():
        raise FailedPrecondition(f"The directory '{path.parent}' of the database does not exist.")
    refuse_network(path.parent)
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise FailedPrecondition(f"SQLite cannot use a write-ahead log here (it answers '{mode}').")
    connection.execute("pragma synchronous = full")
    connection.execute("pragma foreign_keys = on")


def _begin_sqlite(connection: Connection) -> None:
    """Writers take their lock at once: a reader that turns into a writer could not wait for it."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _postgresql_engine(url: URL) -> Engine:
    arguments: dict[str, Any] = {key: value for key, value in POSTGRESQL_ARGUMENTS.items() if key not in url.query}
    if "options" not in url.query:
        arguments["options"] = POSTGRESQL_OPTIONS
    try:
        return sa.create_engine(url, connect_args=arguments, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise FailedPrecondition(
            "PostgreSQL needs the psycopg driver: pip install 'triton-bridge[postgres]'."
        ) from error


def _is_away(error: exc.DBAPIError | exc.TimeoutError) -> bool:
    """Whether the platform is at fault: the same statement may work later."""
    if isinstance(error, exc.TimeoutError):
        return True
    name = getattr(error.orig, "sqlite_errorname", None)
    if name is not None:
        return str(name).startswith(SQLITE_AWAY)
    return error.connection_invalidated or isinstance(error, exc.OperationalError | exc.InterfaceError)


def _first_line(error: exc.SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    return (lines[0] if lines else type(cause).__name__).rstrip(".")
