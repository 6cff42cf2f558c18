"""Bridge processes: when each began, when it was last heard of, and when none was there.

A heartbeat is a row, never an event. What ended without a word is told by the next process that begins.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry.events import ServerLost
from bridge.registry.tables import processes
from bridge.registry.transaction import Transaction

SILENT_AFTER = 10_000_000
"""Microseconds without a heartbeat after which a process on another machine counts as dead."""

_STILL = 2**62


def begin_process(tx: Transaction, name: str, *, shared: bool) -> tuple[str, int | None]:
    """The id of a process that begins, and when the last one before it was heard of, if that ended without a word.

    A process of the same `name` is dead, since one at a time has that name; on a database that is not `shared` every
    one is. None is answered while another one lives.
    """
    lost = [row for row in _unended(tx) if not shared or row["name"] == name or _is_silent(row, tx.now)]
    for row in lost:
        tx.update(processes, {"id": row["id"]}, ended_at=row["heartbeat_at"])
        tx.emit(ServerLost(row["name"], row["heartbeat_at"]))
    heard = max((row["heartbeat_at"] for row in lost), default=None)
    alone = not _unended(tx)
    id = secrets.token_hex(8)
    tx.insert(processes, id=id, name=name, started_at=tx.now, heartbeat_at=tx.now)
    return id, heard if alone else None


def beat(tx: Transaction, id: str) -> None:
    """The process lives."""
    tx.update(processes, {"id": id}, heartbeat_at=tx.now)


def end_process(tx: Transaction, id: str) -> bool:
    """The process ends; whether no other one lives now."""
    tx.update(processes, {"id": id}, heartbeat_at=tx.now, ended_at=tx.now)
    return all(_is_silent(row, tx.now) for row in _unended(tx))


def read_gap(connection: Connection, at: int, now: int) -> tuple[int, int | None] | None:
    """Since when and until when no bridge was there, if that was so at `at`; None as the end means that it still is so.

    Before the first process that was ever kept, nothing is known of that.
    """
    silent = processes.c.heartbeat_at < now - SILENT_AFTER
    ended = sa.func.coalesce(processes.c.ended_at, sa.case((silent, processes.c.heartbeat_at), else_=_STILL))
    start = connection.execute(sa.select(sa.func.max(ended)).where(processes.c.started_at <= at)).scalar()
    if start is None or start > at:
        return None
    following = sa.select(sa.func.min(processes.c.started_at)).where(processes.c.started_at > at)
    return start, connection.execute(following).scalar()


def _unended(tx: Transaction) -> Sequence[RowMapping]:
    return tx.find(processes, ended_at=None)


def _is_silent(row: RowMapping, now: int) -> bool:
    return bool(row["heartbeat_at"] < now - SILENT_AFTER)
