"""The triggers that keep the history append-only, and whether they are all in place.

Events may be deleted only where an archive holds them, and an archive may only be noted as the next one of an existing
event. Whoever owns the tables can drop triggers: then the chain tells, not the database.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

GUARDED = ("events", "archives")

_SEALED = "coalesce((select max(sealed_upto) from archives), 0)"


def _abort(table: str) -> str:
    return f"begin select raise(abort, '{table} is append-only'); end"


_SQLITE = {
    "events_update": f"before update on events {_abort('events')}",
    "events_delete": f"before delete on events when old.seq > {_SEALED} {_abort('events')}",
    "events_insert": (
        f"before insert on events when new.seq <> coalesce((select max(seq) from events), 0) + 1 {_abort('events')}"
    ),
    "archives_update": f"before update on archives {_abort('archives')}",
    "archives_delete": f"before delete on archives {_abort('archives')}",
    "archives_insert": (
        f"before insert on archives when new.first_seq <> {_SEALED} + 1 or new.sealed_upto < new.first_seq"
        " or new.sealed_upto >= (select max(seq) from events) or not exists (select 1 from events"
        " where seq = new.sealed_upto and at = new.at and hash = new.hash and mac is new.mac)"
        f" {_abort('archives')}"
    ),
}
"""REPLACE deletes rows without firing delete triggers: the guards on insert refuse it by its sequence number."""

_POSTGRESQL_FUNCTIONS = {
    "refuse_change_of_events": """
declare
  sealed bigint;
begin
  if tg_op = 'DELETE' then
    execute 'select coalesce(max(sealed_upto), 0) from ' || quote_ident(tg_table_schema) || '.archives' into sealed;
    if old.seq <= sealed then
      return old;
    end if;
  end if;
  raise exception 'events is append-only' using errcode = 'integrity_constraint_violation';
end
""",
    "refuse_change_of_archives": """
declare
  sealed bigint;
  newest bigint;
  known boolean;
begin
  if tg_op = 'INSERT' then
    execute 'select coalesce(max(sealed_upto), 0) from ' || quote_ident(tg_table_schema) || '.archives' into sealed;
    execute 'select max(seq) from ' || quote_ident(tg_table_schema) || '.events' into newest;
    execute 'select exists (select 1 from ' || quote_ident(tg_table_schema) || '.events'
      ' where seq = $1 and at = $2 and hash = $3 and mac is not distinct from $4)'
      into known using new.sealed_upto, new.at, new.hash, new.mac;
    if known and new.first_seq = sealed + 1 and new.sealed_upto >= new.first_seq and new.sealed_upto < newest then
      return new;
    end if;
  end if;
  raise exception 'archives is append-only' using errcode = 'integrity_constraint_violation';
end
""",
}
"""Tables are named with the schema of the guarded one: a temporary table would otherwise be found first."""

_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32
"""Bits of pg_trigger.tgtype."""

_POSTGRESQL = {
    "events_change": ("before update or delete on events for each row", _ROW | _BEFORE | _DELETE | _UPDATE),
    "events_truncate": ("before truncate on events for each statement", _BEFORE | _TRUNCATE),
    "archives_change": (
        "before insert or update or delete on archives for each row",
        _ROW | _BEFORE | _INSERT | _DELETE | _UPDATE,
    ),
    "archives_truncate": ("before truncate on archives for each statement", _BEFORE | _TRUNCATE),
}


def install(connection: Connection) -> None:
    """Have exactly these guards; those that are there under their names are made anew."""
    remove(connection)
    if connection.dialect.name == "sqlite":
        for name, definition in _SQLITE.items():
            connection.exec_driver_sql(f"create trigger {name} {definition}")
        return
    for name, source in _POSTGRESQL_FUNCTIONS.items():
        connection.exec_driver_sql(
            f"create or replace function {name}() returns trigger language plpgsql as $guard${source}$guard$"
        )
    for name, (definition, _) in _POSTGRESQL.items():
        table = _table(name)
        connection.exec_driver_sql(
            f"create trigger {name} {definition} execute function refuse_change_of_{table}()",
        )
        # Plain triggers do not fire under session_replication_role = replica.
        connection.exec_driver_sql(f"alter table {table} enable always trigger {name}")


def remove(connection: Connection) -> None:
    """Drop the guards, within a transaction that installs them again."""
    if connection.dialect.name == "sqlite":
        for name in _SQLITE:
            connection.exec_driver_sql(f"drop trigger if exists {name}")
        return
    for name in _POSTGRESQL:
        connection.exec_driver_sql(f"drop trigger if exists {name} on {_table(name)}")


def missing(connection: Connection) -> tuple[str, ...]:
    """Names of guards that are not there, switched off or not as `install` makes them."""
    return _missing_on_sqlite(connection) if connection.dialect.name == "sqlite" else _missing_on_postgresql(connection)


def _missing_on_sqlite(connection: Connection) -> tuple[str, ...]:
    query = sa.text("select name, sql from sqlite_master where type = 'trigger'")
    found = {name: str(sql) for name, sql in connection.execute(query)}
    # SQLite keeps the text as it was written, behind words of its own.
    return tuple(
        name for name, definition in _SQLITE.items() if not found.get(name, "").endswith(f"{name} {definition}")
    )


def _missing_on_postgresql(connection: Connection) -> tuple[str, ...]:
    query = sa.text(
        "select t.tgname, c.relname, t.tgenabled = 'A' as always, t.tgtype, t.tgqual is null as always_fires,"
        " p.proname, p.prosrc from pg_trigger t join pg_class c on c.oid = t.tgrelid"
        " join pg_proc p on p.oid = t.tgfoid"
        " where not t.tgisinternal and c.oid in (to_regclass('events'), to_regclass('archives'))"
    )
    found = {row["tgname"]: row for row in connection.execute(query).mappings()}
    return tuple(name for name in _POSTGRESQL if not _is_sound(name, found.get(name)))


def _is_sound(name: str, row: Any) -> bool:
    table = _table(name)
    function = f"refuse_change_of_{table}"
    return (
        row is not None
        and (row["relname"], row["proname"]) == (table, function)
        and row["always"]
        and row["always_fires"]
        and row["tgtype"] == _POSTGRESQL[name][1]
        and row["prosrc"] == _POSTGRESQL_FUNCTIONS[function]
    )


def _table(trigger: str) -> str:
    return trigger.partition("_")[0]
