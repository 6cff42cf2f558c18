"""What the database derives from the events by itself: subjects with their slots, what is live now, and the views.

Triggers keep `subjects` and `live`, so that whoever appends an event need not think of them. The views are for people
and BI tools: times as timestamps, and from-to intervals.
"""

from __future__ import annotations

from sqlalchemy.engine import Connection

from bridge.registry import slots

VIEWS = ("history", "live_intervals", "versions_history", "labels_history")


def install(connection: Connection) -> None:
    """Add what is derived to a database with events, filled from those that are there."""
    postgresql = connection.dialect.name == "postgresql"
    words = _POSTGRESQL if postgresql else _SQLITE
    # Releases that did not know the column wrote the version into the state alone.
    slot = slots.expression(f"cast({_version(words)} as text)")
    kind = "stored" if postgresql else "virtual"
    _run(
        connection,
        f"alter table events add column slot text generated always as ({slot}) {kind}",
        "create index ix_events_slot on events (subject, slot, seq)",
        "insert into subjects (subject, slot) select distinct subject, slot from events",
        *(_POSTGRESQL_TRIGGER if postgresql else _SQLITE_TRIGGERS),
        *_views(words),
    )


def remove(connection: Connection) -> None:
    """Take away what `install` added."""
    postgresql = connection.dialect.name == "postgresql"
    _run(
        connection,
        *(f"drop view {view}" for view in reversed(VIEWS)),
        *(_DROP_ON_POSTGRESQL if postgresql else _DROP_ON_SQLITE),
        "drop index ix_events_slot",
        "alter table events drop column slot",
    )


def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)


_POSTGRESQL_TRIGGER = (
    "create function derive_from_event() returns trigger language plpgsql as $$ begin"
    " insert into subjects (subject, slot) values (new.subject, new.slot) on conflict do nothing;"
    f" if new.slot = '{slots.LIVE}' then"
    "  insert into live (selector, state, since, seq) values (new.subject, new.after, new.at, new.seq)"
    "  on conflict (selector) do update set state = excluded.state, since = excluded.since, seq = excluded.seq;"
    " end if; return null; end $$",
    "create trigger events_derived after insert on events for each row execute function derive_from_event()",
)
_DROP_ON_POSTGRESQL = ("drop trigger events_derived on events", "drop function derive_from_event()")

_SQLITE_TRIGGERS = (
    "create trigger events_subject after insert on events when not exists"
    " (select 1 from subjects where subject = new.subject and slot = new.slot)"
    " begin insert into subjects (subject, slot) values (new.subject, new.slot); end",
    f"create trigger events_live after insert on events when new.slot = '{slots.LIVE}' begin"
    " delete from live where selector = new.subject;"
    " insert into live (selector, state, since, seq) values (new.subject, new.after, new.at, new.seq); end",
)
_DROP_ON_SQLITE = ("drop trigger events_subject", "drop trigger events_live")


class _Words:
    """How a dialect says what the views need."""

    def __init__(self, moment: str, text: str, number: str) -> None:
        self._moment, self._text, self._number = moment, text, number

    def moment(self, column: str) -> str:
        """A column of microseconds as a timestamp."""
        return self._moment.format(column)

    def text(self, column: str, key: str) -> str:
        """A key of a column of JSON."""
        return self._text.format(column, key)

    def number(self, column: str, key: str) -> str:
        return self._number.format(column, key)


_SQLITE = _Words(
    "strftime('%Y-%m-%dT%H:%M:%fZ', {0} / 1000000.0, 'unixepoch')",
    "json_extract({0}, '$.{1}')",
    "cast(json_extract({0}, '$.{1}') as integer)",
)
_POSTGRESQL = _Words(
    "to_timestamp({0} / 1000000.0)", "(cast({0} as jsonb) ->> '{1}')", "cast(cast({0} as jsonb) ->> '{1}' as bigint)"
)


def _views(words: _Words) -> tuple[str, ...]:
    return _history(words), _live_intervals(words), _versions_history(words), _labels_history(words)


def _history(words: _Words) -> str:
    return (
        f"create view history as select seq, {words.moment('at')} as time, at, actor, source, subject, version, action,"
        " before, after, reason, request_id from events"
    )


def _live_intervals(words: _Words) -> str:
    """`until` of the next move is the last heartbeat of a bridge that ended without a word."""
    ended = f"coalesce({words.number('next_after', 'until')}, next_at)"
    return (
        f"create view live_intervals as select subject, {words.text('after', 'model')} as model,"
        f" {words.number('after', 'version')} as version, {words.text('after', 'fingerprint')} as fingerprint,"
        f" {words.text('after', 'path')} as path, {words.moment('at')} as started, {words.moment(ended)} as ended,"
        f" at as started_at, {ended} as ended_at, actor, source, reason, seq"
        " from (select seq, at, subject, after, actor, source, reason,"
        " lead(at) over (partition by subject order by seq) as next_at,"
        " lead(after) over (partition by subject order by seq) as next_after"
        f" from events where slot = '{slots.LIVE}') as moves where {words.text('after', 'model')} is not null"
    )


def _versions_history(words: _Words) -> str:
    columns = ("state", "code", "message", "path", "fingerprint")
    selected = ", ".join(f"{words.text('after', name)} as {name}" for name in columns)
    return (
        f"create view versions_history as select {_rest('subject')} as model, version,"
        f" {selected}, {words.moment('at')} as started, {words.moment('next_at')} as ended,"
        " at as started_at, next_at as ended_at, seq from (select seq, at, subject, after,"
        f" {_version(words)} as version, lead(at) over (partition by subject, slot order by seq) as next_at"
        " from events where action = 'version observed') as seen"
    )


def _labels_history(words: _Words) -> str:
    """What labels were wanted to mean; `live_intervals` tells what they did mean."""
    return (
        f"create view labels_history as select {_rest('subject')} as label,"
        f" {words.number('after', 'version')} as version, {words.moment('at')} as started,"
        f" {words.moment('next_at')} as ended, at as started_at, next_at as ended_at, actor, source, reason, seq"
        " from (select seq, at, subject, after, actor, source, reason,"
        " lead(at) over (partition by subject order by seq) as next_at"
        f" from events where slot = '{slots.WANTED}' and action in ('label set', 'label removed')) as moves"
        " where after is not null"
    )


def _version(words: _Words) -> str:
    return f"coalesce(version, {words.number('after', 'version')})"


def _rest(column: str) -> str:
    """What follows the kind of a subject."""
    return f"substr({column}, {len('model:')} + 1)"
