"""A history taken from files into a new database, to ask and verify it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sqlalchemy.engine import Connection

from bridge.clock import Clock, SystemClock
from bridge.errors import FailedPrecondition
from bridge.registry import anchors, canonical, schema
from bridge.registry.anchors import Anchor
from bridge.registry.chain import PAGE, EventRow
from bridge.registry.database import EVENTS_LOCK, Database
from bridge.registry.event_file import EventFile
from bridge.registry.integrity_events import HistoryImported
from bridge.registry.journal import FIRST, Journal
from bridge.registry.modelmesh_events import ModelRegistered
from bridge.registry.records import Actor
from bridge.registry.tables import events, meta

Progress = Callable[[int, int], None]
"""Told how many events are done, and 0."""


@dataclass(frozen=True, slots=True)
class ImportedHistory:
    """The last event that was imported, as an anchor, and the epoch that the database began with it."""

    continues: Anchor
    epoch: int


def import_events(
    url: str,
    files: Sequence[Path],
    actor: Actor,
    key: bytes | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> ImportedHistory:
    """Make the tables in the database at `url`, which has none, and fill the history from its first event on.

    All of the files or nothing. Raises FailedPrecondition for a database with tables, for files that do not follow one
    another or are broken, or without the audit key of a history that has one; InvalidArgument for other files.
    """
    clock = clock or SystemClock()
    chosen = _in_order(files, key)
    _refuse_used(url)
    with closing(Database.connect(url)) as database:
        return database.alter(lambda connection: _fill(connection, database, chosen, actor, key, clock, progress))


def _in_order(files: Sequence[Path], key: bytes | None) -> list[EventFile]:
    """The files from the first event on. Raises FailedPrecondition."""
    chosen = sorted((EventFile(path, key) for path in files), key=lambda file: file.header.first)
    if not chosen or chosen[0].header.first != FIRST:
        first = f"'{chosen[0].path}' begins with event #{chosen[0].header.first}" if chosen else "no file is given"
        raise FailedPrecondition(f"A history is imported from its first event on, but {first}.")
    deployments = {file.header.deployment for file in chosen}
    if len(deployments) > 1:
        raise FailedPrecondition(f"The files are of several deployments: {', '.join(sorted(deployments))}.")
    return chosen


def _refuse_used(url: str) -> None:
    found = schema.status(url)
    if found.revision != schema.EMPTY:
        raise FailedPrecondition(f"The database {found.database} is in use: events are imported into a new one only.")


def _fill(
    connection: Connection,
    database: Database,
    files: Sequence[EventFile],
    actor: Actor,
    key: bytes | None,
    clock: Clock,
    progress: Progress | None,
) -> ImportedHistory:
    schema.create(connection)
    generation = done = 0
    rows = _rows(files)
    while page := list(islice(rows, PAGE)):
        connection.execute(events.insert(), [dict(row) for row in page])
        generation = max(generation, *(_generation(row) for row in page))
        done += len(page)
        if progress is not None:
            progress(done, 0)
    header = files[-1].header
    epoch = header.epoch + 1
    connection.execute(
        meta.insert().values(
            id=1, deployment_id=header.deployment, created_at=clock.now(), last_generation=generation, epoch=epoch
        )
    )
    last = anchors.read_anchor(connection)
    continues = Anchor(last.deployment, header.epoch, last.seq, last.hash, last.at)
    database.lock(connection, EVENTS_LOCK)
    imported = HistoryImported(epoch, continues.to_json(), ", ".join(file.path.name for file in files))
    Journal(clock, key).append(connection, [imported], actor)
    return ImportedHistory(continues, epoch)


def _rows(files: Sequence[EventFile]) -> Iterator[EventRow]:
    """The events of all files. Raises FailedPrecondition where one does not go on from the one before."""
    before: EventFile | None = None
    for file in files:
        if before is not None and (file.header.first, file.header.previous_hash) != (before.last + 1, before.last_hash):
            raise FailedPrecondition(
                f"'{file.path}' begins with event #{file.header.first} and does not go on from '{before.path}', which "
                f"ends with #{before.last}."
            )
        yield from file.rows()
        before = file


def _generation(row: EventRow) -> int:
    """Generations are never used twice in a deployment, so the database has to go on from the highest."""
    return int(canonical.loads(row["after"])["generation"]) if row["action"] == ModelRegistered.action else 0
