"""`bridge db`: the schema of the registry's database, and copies of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from bridge import moments
from bridge.cli.groups import SentenceGroup
from bridge.cli.progress import Progress
from bridge.errors import FailedPrecondition
from bridge.registry import schema
from bridge.registry.database import sqlite_path, sqlite_url
from bridge.registry.integrity import Integrity
from bridge.registry.records import Actor
from bridge.registry.restoring import Restore
from bridge.settings import Settings
from bridge.state_dir import StateDir

ACTOR = Actor("bridge db", "CLI")


class Location:
    """The database that the options name: a URL, or the SQLite file of a state directory."""

    def __init__(self, database_url: str, state_dir: str) -> None:
        self._state = None if database_url else StateDir(state_dir)
        self.url = database_url or sqlite_url(StateDir(state_dir).database_path)

    def require(self) -> None:
        """Raise FailedPrecondition if the state directory has no database."""
        if self._state is not None and not self._state.database_path.exists():
            raise FailedPrecondition(f"There is no database '{self._state.database_path}'.")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the state directory, so that no server uses the database meanwhile. Raises FailedPrecondition."""
        if self._state is None:
            yield
            return
        self._state.acquire()
        try:
            yield
        finally:
            self._state.release()


@click.group(cls=SentenceGroup)
@click.option("--database_url", envvar="BRIDGE_DATABASE_URL", default="", help="SQLAlchemy URL of the registry.")
@click.option(
    "--state_dir",
    envvar="BRIDGE_STATE_DIR",
    default=Settings().state_dir,
    show_default=True,
    help="Directory of the SQLite database; not used with --database_url.",
)
@click.pass_context
def db(ctx: click.Context, database_url: str, state_dir: str) -> None:
    """Show, migrate and copy the registry's database."""
    ctx.obj = Location(database_url, state_dir)


@db.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def status(location: Location, as_json: bool) -> None:
    """Print the schema's revision; exit with 2 if this release needs another one."""
    found = schema.status(location.url)
    tell(found, as_json)
    if not found.current:
        click.get_current_context().exit(2)


audit_key_option = click.option(
    "--audit_key_file", type=click.Path(path_type=Path), help="Key of the history, where it has one."
)


@db.command()
@audit_key_option
@click.pass_obj
def upgrade(location: Location, audit_key_file: Path | None) -> None:
    """Make the tables, or bring them up to date; a SQLite file is copied first."""
    key = read_key(audit_key_file)
    with location.exclusive():
        tell(schema.upgrade(location.url, migrate=True, actor=ACTOR, audit_key=key))


@db.command()
@click.option("--revision", default="base", show_default=True, help="Revision to go back to; base drops every table.")
@click.option("--destroy-history", is_flag=True, help="Go on although events are recorded.")
@audit_key_option
@click.pass_obj
def downgrade(location: Location, revision: str, destroy_history: bool, audit_key_file: Path | None) -> None:
    """Take the schema back. Refused while events exist, unless --destroy-history."""
    location.require()
    key = read_key(audit_key_file)
    with location.exclusive():
        tell(schema.downgrade(location.url, revision, destroy_history=destroy_history, actor=ACTOR, audit_key=key))


@db.command()
@click.argument("target", required=False, type=click.Path(path_type=Path))
@click.option("--portable", is_flag=True, help="JSON lines, which go into SQLite and PostgreSQL alike.")
@click.pass_obj
def backup(location: Location, target: Path | None, portable: bool) -> None:
    """Copy the database, also one in use, to the file TARGET, and print its path.

    SQLite gives a SQLite file, by default beside it; PostgreSQL, or --portable, gives JSON lines, by default in the
    working directory.
    """
    location.require()
    if sqlite_path(location.url) is not None and not portable:
        click.echo(schema.backup(location.url, target))
        return
    integrity = Integrity(location.url)
    at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    click.echo(integrity.dump(target or Path(f"bridge-{integrity.anchor().deployment}-{at}.jsonl")))


@db.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--destroy-history", is_flag=True, help="Go on although the database has events that FILE has not.")
@click.option("--reason", default="", help="Why, for the history.")
@audit_key_option
@click.pass_obj
def restore(location: Location, file: Path, destroy_history: bool, reason: str, audit_key_file: Path | None) -> None:
    """Put the database back from the backup FILE, while no bridge uses it.

    All of it or nothing. A SQLite file that is replaced stays beside the new one. A new epoch of the history begins,
    and its first event names the anchor that it goes on from.
    """
    progress = Progress("rows restored")
    work = Restore(
        file, Actor(ACTOR.name, ACTOR.source, reason), read_key(audit_key_file), destroy_history, progress=progress.of
    )
    with location.exclusive():
        try:
            restored = work.run(location.url)
        finally:
            progress.end()
    click.echo(
        f"Restored up to event #{restored.continues.seq} of {moments.describe(restored.continues.at)}; epoch "
        f"{restored.epoch} begins after it."
    )
    if restored.moved_to:
        click.echo(f"The database that was there is kept as {restored.moved_to}.")


@db.command()
@click.option("--before", required=True, help="Archive events before this time: ISO 8601, UTC unless it has an offset.")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="File to make.")
@click.option("--reason", default="", help="Why, for the history.")
@audit_key_option
@click.pass_obj
def archive(location: Location, before: str, target: Path, reason: str, audit_key_file: Path | None) -> None:
    """Move old events to a file, which may be asked and verified later, also while bridges use the database.

    The chain goes on from the last of them. What later times are asked for stays in the database.
    """
    location.require()
    at = moments.parse(before, time.time_ns() // 1000)
    integrity = Integrity(location.url, read_key(audit_key_file))
    progress = Progress("events archived")
    try:
        outcome = integrity.archive(at, target, Actor(ACTOR.name, ACTOR.source, reason), progress.of)
    finally:
        progress.end()
    if not outcome.file:
        click.echo("There is no event before that time to archive.")
        return
    click.echo(
        f"Events #{outcome.first} to #{outcome.last} are in {outcome.file}; {outcome.kept} of all that are archived "
        "stay in the database too."
    )


def tell(found: schema.SchemaStatus, as_json: bool = False) -> None:
    if as_json:
        click.echo(json.dumps({**asdict(found), "current": found.current}))
        return
    advice = "" if found.current else f" (this release needs {found.head})"
    click.echo(f"{found.database}: schema {found.revision or 'none'}{advice}")


def read_key(path: Path | None) -> bytes | None:
    """The audit key in a file, without white space around it."""
    if path is None:
        return None
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise FailedPrecondition(f"The audit key file '{path}' cannot be read: {error.strerror}.") from error
