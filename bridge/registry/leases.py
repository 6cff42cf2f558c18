"""The leader's lease, on the database's clock, with a fencing number that grows with each change of holder."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.errors import FailedPrecondition, Unavailable
from bridge.registry import notices
from bridge.registry.database import LEADER_LOCK
from bridge.registry.events import LeadershipGiven, LeadershipTaken
from bridge.registry.names import check_name
from bridge.registry.records import Lease
from bridge.registry.tables import leases
from bridge.registry.transaction import Transaction

LEADER = "leader"


def read_lease(connection: Connection) -> Lease | None:
    """The last lease, held or over."""
    row = connection.execute(sa.select(leases).where(leases.c.name == LEADER)).mappings().one_or_none()
    return Lease(**row) if row else None


def acquire_lease(tx: Transaction, holder: str, ttl: float) -> Lease | None:
    """Become the leader for `ttl` seconds; None while another one is. The holder itself gets a new fencing number."""
    check_name("lease holder", holder)
    row = tx.get(leases, name=LEADER)
    if row is not None and row["expires_at"] > tx.database_now() and row["holder"] != holder:
        return None
    tx.lock(LEADER_LOCK)
    now = tx.database_now()
    lease = Lease(LEADER, holder, (row["fence"] if row else 0) + 1, now + round(ttl * 1e6))
    _write(tx, lease, new=row is None)
    notices.notify(tx.connection, notices.LEADER, holder)
    tx.emit(LeadershipTaken(holder, lease.fence, row["holder"] if row and row["expires_at"] else None))
    return lease


def renew_lease(tx: Transaction, lease: Lease, ttl: float) -> Lease:
    """Hold the lease for `ttl` more seconds from now, also when it ran out and nobody else took it meanwhile.

    Raises FailedPrecondition if somebody did, or if it was given back.
    """
    row = tx.get(leases, name=lease.name)
    if row is None or row["fence"] != lease.fence or not row["expires_at"]:
        raise _lost(lease, row)
    renewed = Lease(lease.name, lease.holder, lease.fence, tx.database_now() + round(ttl * 1e6))
    _write(tx, renewed, new=False)
    return renewed


def release_lease(tx: Transaction, lease: Lease) -> bool:
    """Let another one lead at once; False if the lease was over already."""
    row = tx.get(leases, name=lease.name)
    if row is None or row["fence"] != lease.fence or not row["expires_at"]:
        return False
    _write(tx, Lease(lease.name, lease.holder, lease.fence, 0), new=False)
    notices.notify(tx.connection, notices.LEADER, "")
    tx.emit(LeadershipGiven(lease.holder, lease.fence))
    return True


def fence(lease: Lease) -> Callable[[Transaction], None]:
    """A guard that refuses every change after `lease` is over.

    No other leader can begin before the change is committed: until then the guard shares the leader's lock. The
    row itself stays free, so that the lease is renewed whatever else is written.
    """

    def check(tx: Transaction) -> None:
        tx.lock(LEADER_LOCK, shared=True)
        query = sa.select(leases, tx.database_clock().label("now")).where(leases.c.name == LEADER)
        _check(lease, tx.connection.execute(query).mappings().one_or_none())

    return check


def _check(lease: Lease, row: RowMapping | None) -> None:
    if row is None or row["fence"] != lease.fence or not row["expires_at"]:
        raise _lost(lease, row)
    if row["expires_at"] <= row["now"]:
        raise Unavailable(f"'{lease.holder}' did not renew its leadership in time; it decides nothing until it has.")


def _lost(lease: Lease, row: RowMapping | None) -> FailedPrecondition:
    holder = row["holder"] if row is not None and row["fence"] != lease.fence else "nobody"
    return FailedPrecondition(f"'{lease.holder}' does not lead any more (fencing number {lease.fence}); {holder} does.")


def _write(tx: Transaction, lease: Lease, *, new: bool) -> None:
    values = {"holder": lease.holder, "fence": lease.fence, "expires_at": lease.expires_at}
    if new:
        tx.insert(leases, name=lease.name, **values)
    else:
        tx.update(leases, {"name": lease.name}, **values)
