"""The leader's lease, on the database's clock, with a fencing number that grows with each change of holder."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.errors import FailedPrecondition
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
    now = tx.database_now()
    if row is not None and row["expires_at"] > now and row["holder"] != holder:
        return None
    lease = Lease(LEADER, holder, (row["fence"] if row else 0) + 1, now + round(ttl * 1e6))
    _write(tx, lease, new=row is None)
    tx.emit(LeadershipTaken(holder, lease.fence, row["holder"] if row and row["expires_at"] else None))
    return lease


def renew_lease(tx: Transaction, lease: Lease, ttl: float) -> Lease:
    """Hold the lease for `ttl` more seconds from now. Raises FailedPrecondition if it is over."""
    _check(tx, lease, tx.get(leases, name=lease.name))
    renewed = Lease(lease.name, lease.holder, lease.fence, tx.database_now() + round(ttl * 1e6))
    _write(tx, renewed, new=False)
    return renewed


def release_lease(tx: Transaction, lease: Lease) -> bool:
    """Let another one lead at once; False if the lease was over already."""
    row = tx.get(leases, name=lease.name)
    if row is None or row["fence"] != lease.fence or not row["expires_at"]:
        return False
    _write(tx, Lease(lease.name, lease.holder, lease.fence, 0), new=False)
    tx.emit(LeadershipGiven(lease.holder, lease.fence))
    return True


def fence(lease: Lease) -> Callable[[Transaction], None]:
    """A guard that refuses every change after `lease` is over.

    It shares the row's lock, so that no other leader can begin before the change is committed.
    """

    def check(tx: Transaction) -> None:
        query = sa.select(leases).where(leases.c.name == lease.name).with_for_update(read=True)
        _check(tx, lease, tx.connection.execute(query).mappings().one_or_none())

    return check


def _check(tx: Transaction, lease: Lease, row: RowMapping | None) -> None:
    if row is None or row["fence"] != lease.fence or row["expires_at"] <= tx.database_now():
        holder = row["holder"] if row is not None and row["fence"] != lease.fence else "nobody"
        raise FailedPrecondition(
            f"'{lease.holder}' does not lead any more (fencing number {lease.fence}); {holder} does."
        )


def _write(tx: Transaction, lease: Lease, *, new: bool) -> None:
    values = {"holder": lease.holder, "fence": lease.fence, "expires_at": lease.expires_at}
    if new:
        tx.insert(leases, name=lease.name, **values)
    else:
        tx.update(leases, {"name": lease.name}, **values)
