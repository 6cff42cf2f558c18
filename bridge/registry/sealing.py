"""How far the history is sealed: its events up to there are in archives, and only some of them here as well.

Of each subject, slot and action the last sealed event is kept, so that whatever is asked of a later time is answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge import moments
from bridge.errors import FailedPrecondition
from bridge.registry.chain import PAGE, EventRow, Link
from bridge.registry.tables import archives, events, kept_events


@dataclass(frozen=True, slots=True)
class Seal:
    """One archive: events from `first_seq` to `upto`. `at`, `hash` and `mac` are those of the last of them."""

    upto: int
    first_seq: int
    at: int
    hash: str
    mac: str | None
    file: str
    sha256: str

    def link(self) -> Link:
        return Link(self.upto, self.hash, self.at, self.mac is not None)


@dataclass(frozen=True, slots=True)
class Kept:
    """How many sealed events are kept, and a digest over all of them."""

    number: int
    digest: str


def read_seals(connection: Connection) -> tuple[Seal, ...]:
    """Every archive, the oldest first."""
    rows = connection.execute(sa.select(archives).order_by(archives.c.sealed_upto))
    return tuple(Seal(row.sealed_upto, row.first_seq, row.at, row.hash, row.mac, row.file, row.sha256) for row in rows)


def read_seal(connection: Connection) -> Seal | None:
    """The newest archive."""
    seals = read_seals(connection)
    return seals[-1] if seals else None


def require_unsealed(connection: Connection, at: int) -> None:
    """Raises FailedPrecondition if events that tell of the time `at` (microseconds UTC) are archived."""
    seal = read_seal(connection)
    if seal is not None and at < seal.at:
        raise FailedPrecondition(
            f"The history up to {moments.describe(seal.at)} (event #{seal.upto}) is archived in {seal.file}; ask for a "
            "later time, or import the archives into a new database by `bridge import events`."
        )


def kept_rows(connection: Connection) -> Iterator[EventRow]:
    """Sealed events that are kept, in order, each with `previous_hash`; columns are None where the event is gone."""
    query = (
        sa.select(events, kept_events.c.seq.label("kept_seq"), kept_events.c.previous_hash)
        .join_from(kept_events, events, kept_events.c.seq == events.c.seq, isouter=True)
        .order_by(kept_events.c.seq)
        .limit(PAGE)
    )
    rows = connection.execute(query).mappings().all()
    while rows:
        yield from rows
        rows = connection.execute(query.where(kept_events.c.seq > rows[-1]["kept_seq"])).mappings().all()


class KeptDigest:
    """SHA-256 over kept events, added in their order."""

    def __init__(self) -> None:
        self._number = 0
        self._digest = hashlib.sha256()

    def add(self, seq: int, previous_hash: str, hash: str, mac: str | None) -> None:
        self._number += 1
        self._digest.update(f"{seq} {previous_hash} {hash} {mac or '-'}\n".encode())

    def kept(self) -> Kept:
        return Kept(self._number, self._digest.hexdigest())
