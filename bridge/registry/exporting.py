"""The events of a time as JSON lines, page by page, so that neither memory nor a long transaction holds them."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.errors import FailedPrecondition
from bridge.registry import event_file
from bridge.registry.chain import PAGE, EventRow
from bridge.registry.database import Database
from bridge.registry.event_file import Header
from bridge.registry.journal import GENESIS
from bridge.registry.sealing import read_seal, require_unsealed
from bridge.registry.tables import events, meta


def export(database: Database, since: int | None = None, until: int | None = None) -> Iterator[str]:
    """The lines of a file with the events from `since` on, before `until`: microseconds UTC, None for no bound.

    Without `since` it begins after what is archived. What is appended meanwhile does not come along. Raises
    FailedPrecondition for times that are archived.
    """
    header, last = database.read(lambda connection: _plan(connection, since, until))
    return event_file.lines(header, rows(database, header.first, last))


def rows(database: Database, first: int, last: int) -> Iterator[EventRow]:
    """Events in order, each page in a transaction of its own: events do not change.

    Raises FailedPrecondition if some are archived meanwhile.
    """
    after = first - 1
    while after < last:
        query = sa.select(events).where(events.c.seq > after, events.c.seq <= last).order_by(events.c.seq).limit(PAGE)
        page = database.read(lambda connection, query=query: connection.execute(query).mappings().all())  # type: ignore[misc]
        if not page:
            raise FailedPrecondition(f"Event #{after + 1} is not there any more; see `bridge verify`.")
        yield from page
        after = page[-1]["seq"]


def last_before(connection: Connection, at: int | None) -> int:
    """The sequence number of the last event before the time `at`, None for the last of all; 0 for none."""
    query = sa.select(events.c.seq).order_by(events.c.at.desc(), events.c.seq.desc()).limit(1)
    if at is not None:
        query = query.where(events.c.at < at)
    return connection.execute(query).scalar() or 0


def _plan(connection: Connection, since: int | None, until: int | None) -> tuple[Header, int]:
    """What the file begins with, and its last event."""
    own = connection.execute(sa.select(meta.c.deployment_id, meta.c.epoch)).one()
    seal = read_seal(connection)
    if since is not None:
        require_unsealed(connection, since - 1)
    before = last_before(connection, since) if since is not None else 0
    before = max(before, seal.upto if seal is not None else 0)
    header = Header(own.deployment_id, own.epoch, before + 1, _hash_of(connection, before))
    return header, max(last_before(connection, until), before)


def _hash_of(connection: Connection, seq: int) -> str:
    seal = read_seal(connection)
    if seq == 0:
        return GENESIS
    if seal is not None and seq == seal.upto:
        return seal.hash
    return str(connection.execute(sa.select(events.c.hash).where(events.c.seq == seq)).scalar_one())
