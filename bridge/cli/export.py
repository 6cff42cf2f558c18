"""`bridge export`: the history as files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from bridge import moments
from bridge.cli import connection
from bridge.cli.groups import SentenceGroup
from bridge.cli.progress import Progress

STDOUT = "-"


@click.group(cls=SentenceGroup)
def export() -> None:
    """Write the history, or where it is now, as JSON."""


@export.command()
@click.option("--from", "since", help="Only events from this time on: ISO 8601, UTC unless it has an offset.")
@click.option("--until", help="Only events before this time.")
@click.argument("file", default=STDOUT)
@connection.asking
def events(since: str | None, until: str | None, file: str) -> None:
    """Write events as JSON lines to FILE, or to stdout.

    The first line tells what follows and the last one where it ends; `before` and `after` are text, exactly as the
    hashes cover it.
    """
    now = time.time_ns() // 1000
    bounds = [None if text is None else moments.parse(text, now) for text in (since, until)]
    progress = Progress("events exported")
    _write(_reported(connection.integrity().export(*bounds), progress), file)
    progress.end()


@export.command()
@click.argument("file", default=STDOUT)
@connection.asking
def anchor(file: str) -> None:
    """Write where the history is now to FILE, or to stdout; kept elsewhere, `bridge verify --anchor` goes by it."""
    _write([json.dumps(connection.integrity().anchor())], file)


def _reported(lines: Iterable[str], progress: Progress) -> Iterator[str]:
    for number, line in enumerate(lines):
        progress.of(number, 0)
        yield line


def _write(lines: Iterable[str], file: str) -> None:
    if file == STDOUT:
        for line in lines:
            click.echo(line)
        return
    # Only a file needs what the registry brings along.
    from bridge.registry import new_file

    new_file.write(Path(file), lines)
