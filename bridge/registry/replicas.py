"""Bridges that share one database: which of them live, how far their routers are, what the leader published.

None of this is history. All times are on the database's clock, since the replicas' own may differ.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.registry import notices
from bridge.registry.leases import read_lease
from bridge.registry.names import check_name
from bridge.registry.records import Pulse, Replica, RouterProgress
from bridge.registry.tables import meta, published_routes, replicas, routers
from bridge.registry.transaction import Transaction

KEPT = 3_600_000_000
"""Microseconds for which those that ended without a word are kept."""


def beat(tx: Transaction, replica: Replica, progress: Sequence[tuple[str, int]], ttl: float) -> Pulse:
    """Say that `replica` lives for `ttl` more seconds, and its routers with it; `progress` is (router, epoch)."""
    now = tx.database_now()
    ends = now + round(ttl * 1e6)
    values = {"address": replica.address, "release": replica.release, "expires_at": ends}
    _upsert(tx, replicas, {"name": check_name("replica name", replica.name)}, {**values, "started_at": now}, values)
    for name, epoch in progress:
        _upsert(tx, routers, {"name": name}, {"replica": replica.name, "epoch": epoch, "expires_at": ends})
    return _pulse(tx.connection, now)


def drain(tx: Transaction, router: str, replica: str, epoch: int, ttl: float) -> None:
    """The router holds no request older than `epoch`; the leader is told."""
    values = {"replica": replica, "epoch": epoch, "expires_at": tx.database_now() + round(ttl * 1e6)}
    _upsert(tx, routers, {"name": router}, values)
    notices.notify(tx.connection, notices.DRAINED, [router, epoch])


def leave(tx: Transaction, replica: str) -> None:
    """The replica ends; nobody has to wait for its routers."""
    tx.delete(routers, replica=replica)
    tx.delete(replicas, name=replica)
    long_gone = tx.database_now() - KEPT
    for table in (routers, replicas):
        tx.connection.execute(table.delete().where(table.c.expires_at < long_gone))


def read_replicas(connection: Connection) -> tuple[Replica, ...]:
    """Those that live, by name."""
    query = sa.select(replicas.c.name, replicas.c.address, replicas.c.release).order_by(replicas.c.name)
    rows = connection.execute(query.where(replicas.c.expires_at > _now(connection))).mappings()
    return tuple(Replica(**row) for row in rows)


def read_routers(connection: Connection) -> tuple[RouterProgress, ...]:
    """Routers whose leases are not over."""
    query = sa.select(routers.c.name, routers.c.epoch, routers.c.expires_at).order_by(routers.c.name)
    rows = connection.execute(query.where(routers.c.expires_at > _now(connection))).mappings()
    return tuple(RouterProgress(**row) for row in rows)


def write_routes(tx: Transaction, epoch: int, document: str) -> None:
    """Publish a snapshot. An older one than the last is not written."""
    row = tx.get(published_routes, id=1)
    if row is not None and row["epoch"] >= epoch:
        return
    if row is None:
        tx.insert(published_routes, id=1, epoch=epoch, document=document)
    else:
        tx.update(published_routes, {"id": 1}, epoch=epoch, document=document)
    notices.notify(tx.connection, notices.ROUTES, epoch)


def read_routes(connection: Connection, after: int) -> str | None:
    """The newest snapshot, None if it is not newer than `after`."""
    query = sa.select(published_routes.c.document).where(published_routes.c.epoch > after)
    return connection.execute(query).scalar_one_or_none()


def shared_secret(tx: Transaction) -> str:
    """What replicas prove to each other that they belong to this database; made by the first that asks."""
    row = tx.get(meta, id=1)
    assert row is not None
    if row["replica_secret"]:
        return str(row["replica_secret"])
    secret = secrets.token_hex(32)
    tx.update(meta, {"id": 1}, replica_secret=secret)
    return secret


def _pulse(connection: Connection, now: int) -> Pulse:
    lease = read_lease(connection)
    epoch = connection.execute(sa.select(published_routes.c.epoch)).scalar_one_or_none()
    address = None
    if lease is not None and lease.expires_at > now:
        query = sa.select(replicas.c.address).where(replicas.c.name == lease.holder)
        address = connection.execute(query).scalar_one_or_none()
    return Pulse(now, lease, address or "", epoch or 0)


def _upsert(
    tx: Transaction,
    table: sa.Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    changed: Mapping[str, Any] | None = None,
) -> None:
    """Insert `values`, or change the row to `changed` (by default the same) where there is one."""
    changes = values if changed is None else changed
    where = sa.and_(*(table.c[name] == value for name, value in key.items()))
    if not tx.connection.execute(table.update().where(where).values(**changes)).rowcount:
        tx.insert(table, **key, **values)


def _now(connection: Connection) -> sa.ColumnElement[int]:
    """A bridge on SQLite is alone, and whoever it knows lives."""
    if connection.dialect.name == "postgresql":
        return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * 1_000_000, sa.BigInteger)
    return sa.literal(0)
