"""What commands print: a table on a terminal, tab-separated lines elsewhere, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

ESCAPES = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Names may hold any character; those that move a cursor or end a line are shown, not sent."""

Row = Sequence[str]


def tell_json(value: Mapping[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def tell_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """A header and a line for each row; an empty table is its header."""
    safe = [[cell.translate(ESCAPES) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, safe)
        return
    for line in (columns, *safe):
        click.echo("\t".join(line))


def tell_facts(facts: Mapping[str, str]) -> None:
    """A line `name: value` for each fact."""
    for name, value in facts.items():
        click.echo(f"{name}: {value.translate(ESCAPES)}")


def tell_change(sentence: str, changed: bool) -> None:
    click.echo(f"{sentence.translate(ESCAPES)}{'' if changed else ' (it was so before)'}")


def moment(microseconds: int) -> str:
    """A time of the registry, to the millisecond."""
    text = datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def joined(items: Sequence[Any]) -> str:
    return ", ".join(str(item) for item in items)


def _draw(columns: Sequence[str], rows: Sequence[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    Console().print(table)
