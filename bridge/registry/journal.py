"""The append-only, hash-chained history.

Each row's `hash` is SHA-256 over the previous row's hash and the canonical JSON of the row (null columns left out);
`before` and `after` enter as the exact text that is stored. With an audit key, `mac` is the HMAC of that hash, so that
a rewritten and re-hashed history is found by whoever holds the key; once a row has a mac, every later one has.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.clock import Clock
from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import canonical
from bridge.registry.events import Event
from bridge.registry.records import Actor, EventRecord
from bridge.registry.tables import events

GENESIS = "0" * 64
_HEAD = sa.select(events.c.seq, events.c.at, events.c.hash, events.c.mac).order_by(events.c.seq.desc()).limit(1)
FIRST = 1
CHAINED = ("seq", "at", "actor", "source", "subject", "action", "before", "after", "reason", "request_id", "version")


class Journal:
    """Appends to and reads the events table. `key` is the audit key, None for a chain without macs."""

    def __init__(self, clock: Clock, key: bytes | None = None) -> None:
        if key is not None and not key:
            raise InvalidArgument("The audit key is empty.")
        self.written = 0
        """Committed events of this process."""
        self._clock = clock
        self._key = key

    def append(self, connection: Connection, happened: Sequence[Event], actor: Actor) -> None:
        """Append `happened` in order. The caller holds the events lock and commits next.

        Raises FailedPrecondition without the key of a history that has one.
        """
        seq, at, head = self._head(connection)
        at = max(self._clock.now(), at)
        rows = []
        for number, event in enumerate(happened, start=seq + 1):
            row = _row(number, at, event, event.by() or actor)
            head = digest(head, row)
            rows.append({**row, "hash": head, "mac": self._mac(head)})
        names = dict.fromkeys(name for row in rows for name in row)
        connection.execute(events.insert(), [{name: row.get(name) for name in names} for row in rows])

    def events(
        self,
        connection: Connection,
        subject: str | None = None,
        action: str | None = None,
        after: int = 0,
        limit: int = 100,
        newest_first: bool = False,
    ) -> tuple[EventRecord, ...]:
        """Events past sequence number `after`, oldest first unless told otherwise."""
        query = sa.select(events).where(events.c.seq > after).limit(limit)
        query = query.order_by(events.c.seq.desc() if newest_first else events.c.seq)
        if subject is not None:
            query = query.where(events.c.subject == canonical.clean(subject))
        if action is not None:
            query = query.where(events.c.action == action)
        return tuple(record(row) for row in connection.execute(query).mappings())

    @property
    def key(self) -> bytes | None:
        """The audit key."""
        return self._key

    def _head(self, connection: Connection) -> tuple[int, int, str]:
        row = connection.execute(_HEAD).one_or_none()
        if row is None:
            return FIRST - 1, 0, GENESIS
        if row.mac is not None and self._key is None:
            raise FailedPrecondition("The history is authenticated with an audit key; give it by --audit_key_file.")
        return row.seq, row.at, row.hash

    def _mac(self, head: str) -> str | None:
        return attest(self._key, head) if self._key is not None else None


def digest(previous: str, row: Mapping[str, Any] | RowMapping) -> str:
    """The hash of `row`, hex, after a row with the hash `previous`."""
    content = canonical.dumps({name: row[name] for name in CHAINED if row.get(name) is not None})
    return hashlib.sha256(f"{previous}{content}".encode()).hexdigest()


def attest(key: bytes, text: str) -> str:
    """The HMAC of `text`, hex."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _row(seq: int, at: int, event: Event, actor: Actor) -> dict[str, Any]:
    """The columns that are not null, so that a schema which is older than a column can be told of its migration."""
    row = {
        "seq": seq,
        "at": at,
        "actor": canonical.cut(actor.name),
        "source": canonical.cut(actor.source),
        "subject": canonical.clean(event.subject),
        "action": event.action,
        "before": _json(event.before()),
        "after": _json(event.after()),
        "reason": canonical.cut(actor.reason),
        "request_id": canonical.cut(actor.request_id),
    }
    version = event.about_version()
    return row if version is None else row | {"version": version}


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else canonical.dumps(value)


def record(row: RowMapping) -> EventRecord:
    values = {name: row[name] for name in (*CHAINED, "hash")}
    for name in ("before", "after"):
        values[name] = None if values[name] is None else canonical.loads(values[name])
    return EventRecord(**values)
