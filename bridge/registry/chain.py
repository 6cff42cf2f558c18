"""Whether events follow one another as they were written."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry.journal import FIRST, GENESIS, attest, digest
from bridge.registry.tables import events

PAGE = 1000

EventRow = Mapping[str, Any] | RowMapping
"""A row of the events table by column, also as a file has it."""


@dataclass(frozen=True, slots=True)
class Break:
    """The first event that is not as it was written; `what` says what is wrong with it, to follow its number."""

    seq: int
    what: str

    def __str__(self) -> str:
        return f"Event #{self.seq} {self.what}."


@dataclass(frozen=True, slots=True)
class Link:
    """Where a part of the chain begins: the event before it. `attested` says that this one has a mac."""

    seq: int = FIRST - 1
    hash: str = GENESIS
    at: int = 0
    attested: bool = False


class Chain:
    """Follows events in their order from `start` on. With the audit key, macs are checked as well."""

    def __init__(self, start: Link, key: bytes | None = None) -> None:
        self.head = start
        self.first_attested: int | None = start.seq if start.attested else None
        self._key = key

    def follow(self, row: EventRow) -> Break | None:
        """Go on to `row`; what is wrong with it, or with the one that should stand in its place."""
        expected = self.head.seq + 1
        if row["seq"] != expected:
            return Break(expected, "is missing")
        if row["hash"] != digest(self.head.hash, row):
            return Break(expected, "was changed, or stands in another's place: its hash does not fit")
        if row["at"] < self.head.at:
            return Break(expected, "is older than the one before it")
        found = self._attest(row)
        if found is None:
            self._go_on(row)
        return found

    def _attest(self, row: EventRow) -> Break | None:
        if row["mac"] is None:
            return Break(row["seq"], "has lost its mac") if self.head.attested else None
        if self._key is not None and not is_genuine(self._key, row["hash"], row["mac"]):
            return Break(row["seq"], "was rewritten by somebody without this audit key: its mac does not fit")
        return None

    def _go_on(self, row: EventRow) -> None:
        attested = row["mac"] is not None
        if attested and self.first_attested is None:
            self.first_attested = row["seq"]
        self.head = Link(row["seq"], row["hash"], row["at"], attested)


def is_genuine(key: bytes, text: str, mac: str) -> bool:
    return hmac.compare_digest(mac.encode(), attest(key, text).encode())


def pages(connection: Connection, after: int, upto: int | None = None) -> Iterator[EventRow]:
    """Events past `after` in order, up to `upto`, never more than a page in memory."""
    query = sa.select(events).order_by(events.c.seq).limit(PAGE)
    if upto is not None:
        query = query.where(events.c.seq <= upto)
    rows = connection.execute(query.where(events.c.seq > after)).mappings().all()
    while rows:
        yield from rows
        rows = connection.execute(query.where(events.c.seq > rows[-1]["seq"])).mappings().all()
