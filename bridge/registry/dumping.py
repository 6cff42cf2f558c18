"""A whole database as JSON lines, which go into SQLite and PostgreSQL alike.

The first line names the schema's revision and the anchor at which the dump was made; then each row is an object of its
table and its columns; the last line counts the rows, so that a dump that was cut shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import anchors, canonical, json_lines, schema
from bridge.registry.anchors import Anchor
from bridge.registry.chain import PAGE
from bridge.registry.tables import metadata

FORMAT = "triton-bridge database"
VERSION = 1

LEFT_OUT = frozenset({"subjects", "live", "schema_compatibility", "replicas", "routers", "published_routes"})
"""What the database derives by itself or makes with its schema, and what only holds while bridges live."""


@dataclass(frozen=True, slots=True)
class DumpHeader:
    """`revision` is that of the schema, `anchor` the last event in the dump."""

    revision: str
    anchor: Anchor


def lines(connection: Connection) -> Iterator[str]:
    """The lines of a dump of what `connection` sees as one snapshot, without line ends."""
    anchor = anchors.read_anchor(connection)
    yield canonical.dumps({"format": FORMAT, "version": VERSION, "revision": schema.head(), "anchor": anchor.to_json()})
    number = 0
    for table in metadata.sorted_tables:
        if table.name in LEFT_OUT:
            continue
        for row in _rows(connection, table):
            number += 1
            yield canonical.dumps({"table": table.name, "row": row})
    yield canonical.dumps({"rows": number})


def _rows(connection: Connection, table: sa.Table) -> Iterator[dict[str, Any]]:
    """Every row in the order of its key, never more than a page in memory."""
    columns = [column for column in table.columns if not _is_generated(column)]
    key = list(table.primary_key)
    query = sa.select(*columns).order_by(*key).limit(PAGE)
    rows = connection.execute(query).mappings().all()
    while rows:
        yield from (dict(row) for row in rows)
        last = sa.tuple_(*(sa.literal(rows[-1][column.name]) for column in key))
        rows = connection.execute(query.where(sa.tuple_(*key) > last)).mappings().all()


def _is_generated(column: sa.Column[Any]) -> bool:
    return column.server_default is not None and not isinstance(column.server_default, sa.DefaultClause)


def read_header(path: Path) -> DumpHeader:
    """Raises InvalidArgument for what is no dump."""
    value = json_lines.first(path, FORMAT, VERSION, "bridge db backup")
    return DumpHeader(str(value.get("revision")), anchors.read(value.get("anchor")))


def load(connection: Connection, path: Path) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Fill the empty tables from a dump, and yield what went in, page by page and table by table.

    Raises InvalidArgument for a dump that was cut or names what is not there.
    """
    known = {name: _columns(connection, name) for name in sa.inspect(connection).get_table_names()}
    for name, group in groupby(_dumped(path), key=lambda item: str(item[0])):
        if name not in known:
            raise InvalidArgument(f"The backup '{path}' has rows of '{name}', a table that its revision has not.")
        rows = (row for _, row in group)
        while page := list(islice(rows, PAGE)):
            _insert(connection, path, name, known[name], page)
            yield name, page


def _columns(connection: Connection, table: str) -> frozenset[str]:
    return frozenset(column["name"] for column in sa.inspect(connection).get_columns(table))


def _insert(
    connection: Connection, path: Path, name: str, known: frozenset[str], page: list[Mapping[str, Any]]
) -> None:
    names = sorted(page[0])
    if any(row.keys() != page[0].keys() for row in page) or not known.issuperset(names):
        raise InvalidArgument(f"The backup '{path}' has rows of '{name}' that do not fit the table.")
    table = sa.table(name, *(sa.column(column) for column in names))
    connection.execute(table.insert(), [dict(row) for row in page])


def _dumped(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Table and row of each line. Raises FailedPrecondition if the last line is not there."""
    number = 0
    read = islice(json_lines.read(path), 1, None)
    for _, _, value in read:
        if "table" not in value:
            if value.get("rows") != number or next(read, None) is not None:
                break
            return
        number += 1
        yield value["table"], value["row"]
    raise FailedPrecondition(f"The backup '{path}' is not complete: {number} rows are there, and not its last line.")
