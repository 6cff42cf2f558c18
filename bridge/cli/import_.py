"""`bridge import`: what other systems know, taken into the registry."""

from __future__ import annotations

import getpass
import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from bridge.cli.db import Location, audit_key_option, read_key
from bridge.cli.groups import SentenceGroup
from bridge.cli.progress import Progress
from bridge.errors import InvalidArgument
from bridge.modelmesh import etcd_dump
from bridge.registry import importing, schema
from bridge.registry.imports import ImportOutcome
from bridge.registry.records import Actor
from bridge.registry.registry import Registry
from bridge.settings import Settings

NAMED = 20
"""How many of the keys that mean nothing here a report names."""


@click.group("import", cls=SentenceGroup)
@click.option("--database_url", envvar="BRIDGE_DATABASE_URL", default="", help="SQLAlchemy URL of the registry.")
@click.option(
    "--state_dir",
    envvar="BRIDGE_STATE_DIR",
    default=Settings().state_dir,
    show_default=True,
    help="Directory of the SQLite database; not used with --database_url.",
)
@click.pass_context
def import_(ctx: click.Context, database_url: str, state_dir: str) -> None:
    """Take what another system knows into the registry, while no server uses it."""
    ctx.obj = Location(database_url, state_dir)


@import_.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--reason", default="", help="Why, for the history.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@audit_key_option
@click.pass_obj
def modelmesh(location: Location, file: Path, reason: str, as_json: bool, audit_key_file: Path | None) -> None:
    """Register the models and vmodels in FILE, which `etcdctl get --prefix PREFIX -w json` printed.

    All of them or none: an id that is there with other content ends the import.
    """
    key = read_key(audit_key_file)
    try:
        dump = etcd_dump.read(file.read_bytes())
    except OSError as error:
        raise InvalidArgument(f"The file '{file}' cannot be read: {error.strerror}.") from error
    with location.exclusive():
        schema.upgrade(location.url, audit_key=key)
        with closing(Registry.open(location.url, audit_key=key)) as registry:
            actor = Actor(getpass.getuser(), "CLI", reason or f"import of {file.name}")
            outcome = registry.import_all(dump.models, dump.vmodels, actor)
    _tell_json(outcome, dump.other_keys) if as_json else _tell(outcome, dump.other_keys)


@import_.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--reason", default="", help="Why, for the history.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@audit_key_option
@click.pass_obj
def events(
    location: Location, files: tuple[Path, ...], reason: str, as_json: bool, audit_key_file: Path | None
) -> None:
    """Make a new database and fill its history from FILES: archives and exports that follow one another.

    The chain is checked; all of it is taken or nothing. The first file has to begin with the first event.
    """
    key = read_key(audit_key_file)
    progress = Progress("events imported")
    with location.exclusive():
        actor = Actor(getpass.getuser(), "CLI", reason or f"import of {len(files)} files")
        try:
            imported = importing.import_events(location.url, files, actor, key, progress=progress.of)
        finally:
            progress.end()
    if as_json:
        click.echo(json.dumps(asdict(imported)))
        return
    click.echo(
        f"{imported.continues.seq} events of deployment {imported.continues.deployment} are imported; epoch "
        f"{imported.epoch} begins after them."
    )


def _tell_json(outcome: ImportOutcome, others: tuple[str, ...]) -> None:
    click.echo(json.dumps({**asdict(outcome), "other_keys": others}))


def _tell(outcome: ImportOutcome, others: tuple[str, ...]) -> None:
    click.echo(
        f"{len(outcome.models)} models and {len(outcome.vmodels)} vmodels are new; "
        f"{outcome.unchanged} were there already."
    )
    for id in outcome.dangling:
        click.echo(f"vmodel {id} is left out: its models are not there.")
    if others:
        click.echo(f"{len(others)} other keys are left out:")
    for key in others[:NAMED]:
        click.echo(f"  {key}")
    if len(others) > NAMED:
        click.echo(f"  and {len(others) - NAMED} more")
