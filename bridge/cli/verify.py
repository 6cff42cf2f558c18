"""`bridge verify`: whether the history is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from bridge.cli import connection, output
from bridge.cli.admin import JsonObject
from bridge.cli.anchor_file import read_anchor
from bridge.cli.progress import Progress
from bridge.errors import BridgeError

BROKEN, UNDECIDED = 1, 2
"""Exit codes."""


@click.command()
@click.option("--anchor", type=click.Path(path_type=Path), help="Anchor that `bridge export anchor` made earlier.")
@click.option(
    "--archive", multiple=True, type=click.Path(path_type=Path), help="Archive to verify with the rest; may repeat."
)
@connection.reading
def verify(anchor: Path | None, archive: tuple[Path, ...]) -> None:
    """Verify the history and what is stored beside it, and name the first broken event.

    With --audit_key_file or --database_url the database itself is read, which may be in use; else a running server
    verifies its own history. Exits with 1 if something is wrong, with 2 if that cannot be decided.
    """
    progress = Progress("events verified")
    try:
        wanted = None if anchor is None else read_anchor(anchor)
        found = connection.integrity(here=bool(archive)).verify(wanted, archive, progress)
    except BridgeError as error:
        progress.end()
        click.echo(f"Error: {error.message}", err=True)
        click.get_current_context().exit(UNDECIDED)
    progress.end()
    output.tell_json(found) if connection.wants_json() else _tell(found)
    click.get_current_context().exit(_code(found))


def _code(found: JsonObject) -> int:
    if not found["whole"]:
        return BROKEN
    return UNDECIDED if found["unchecked"] else 0


def _tell(found: JsonObject) -> None:
    for sentence in _sentences(found):
        click.echo(sentence.translate(output.ESCAPES))


def _sentences(found: JsonObject) -> Iterator[str]:
    if found["broken"] is not None:
        yield f"BROKEN: {found['broken']['text']}"
    elif not found["whole"]:
        yield f"The {found['events']} events are whole, but not what stands beside them:"
    elif found["unchecked"]:
        yield f"The {found['events']} events are whole as far as that can be decided:"
    else:
        yield f"The history is whole: {found['events']} events, the last of them #{found['last']} of {found['hash']}."
    for name in found["unguarded"]:
        yield f"The database does not protect its history: the trigger {name} is gone, switched off or altered."
    yield from (difference["text"] for difference in found["differences"])
    yield from found["unchecked"]
    if found["sealed_upto"]:
        yield f"Events up to #{found['sealed_upto']} are archived; give the archives by --archive to verify them too."
    yield from found["promises"]
