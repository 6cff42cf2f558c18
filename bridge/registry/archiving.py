"""Old events written to a file, sealed and deleted, without breaking the chain.

The file is complete and safe on disk, and was read back, before anything is deleted. Sealing, deleting and the event
that tells of it are one transaction. Whatever ends the process, each event is in the database or in a finished file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.errors import FailedPrecondition
from bridge.registry import canonical, event_file, new_file
from bridge.registry.chain import EventRow, pages
from bridge.registry.database import Database
from bridge.registry.event_file import EventFile, Header
from bridge.registry.exporting import last_before, rows
from bridge.registry.integrity_events import HistoryArchived
from bridge.registry.journal import FIRST, GENESIS
from bridge.registry.records import Actor
from bridge.registry.sealing import Kept, KeptDigest, Seal, kept_rows, read_seal
from bridge.registry.slots import NOTE
from bridge.registry.tables import archives, events, kept_events, meta
from bridge.registry.transaction import Transaction, Transactions

DELETED_AT_ONCE = 10_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ArchiveOutcome:
    """Events from `first` to `last` are in `file` now, and `kept` of all that are archived stay in the database too.

    Without any event before the given time, `last` is before `first` and there is no file.
    """

    file: str
    first: int
    last: int
    kept: int


@dataclass(frozen=True, slots=True)
class _Plan:
    header: Header
    last: int


def archive(
    database: Database,
    transactions: Transactions,
    before: int,
    target: Path,
    actor: Actor,
    key: bytes | None = None,
    progress: Progress | None = None,
) -> ArchiveOutcome:
    """Move the events before the time `before` (microseconds UTC) to the new file `target`.

    The newest event always stays. Raises AlreadyExists if `target` is there, FailedPrecondition if it cannot be
    written or the events are broken; nothing is deleted then.
    """
    plan = database.read(lambda connection: _plan(connection, before))
    if plan.last < plan.header.first:
        return ArchiveOutcome("", plan.header.first, plan.last, 0)
    new_file.write(
        target, _reported(event_file.lines(plan.header, rows(database, plan.header.first, plan.last)), plan, progress)
    )
    sha256 = _read_back(target, plan, key)
    chosen, kept = database.study(lambda connection: _choose(connection, plan.last))
    seal = database.read(lambda connection: _seal(connection, plan, target, sha256))
    transactions.run(lambda tx: _seal_and_delete(tx, seal, chosen, kept), actor)
    return ArchiveOutcome(str(target), seal.first_seq, seal.upto, kept.number)


def _plan(connection: Connection, before: int) -> _Plan:
    own = connection.execute(sa.select(meta.c.deployment_id, meta.c.epoch)).one()
    seal = read_seal(connection)
    first = seal.upto + 1 if seal else FIRST
    newest = connection.execute(sa.select(sa.func.max(events.c.seq))).scalar() or 0
    last = min(last_before(connection, before), newest - 1)
    return _Plan(Header(own.deployment_id, own.epoch, first, seal.hash if seal else GENESIS), last)


def _reported(lines: Iterator[str], plan: _Plan, progress: Progress | None) -> Iterator[str]:
    total = plan.last - plan.header.first + 1
    for number, line in enumerate(lines):
        if progress is not None and number % 1000 == 0:
            progress(number, total)
        yield line


def _read_back(target: Path, plan: _Plan, key: bytes | None) -> str:
    """The SHA-256 of the file, whose events are whole. Raises FailedPrecondition, and takes the file away, if not."""
    file = EventFile(target, key)
    try:
        for _ in file.rows():
            pass
    except FailedPrecondition as error:
        target.unlink()
        raise FailedPrecondition(f"{error.message} Nothing is archived; see `bridge verify`.") from error
    if file.last != plan.last:
        raise FailedPrecondition(f"The archive '{target}' ends with event #{file.last}, not with #{plan.last}.")
    return file.sha256


def _seal(connection: Connection, plan: _Plan, target: Path, sha256: str) -> Seal:
    row = connection.execute(sa.select(events).where(events.c.seq == plan.last)).mappings().one()
    return Seal(plan.last, plan.header.first, row["at"], row["hash"], row["mac"], target.name, sha256)


def _choose(connection: Connection, last: int) -> tuple[dict[int, str], Kept]:
    """The events up to `last` that have to stay, with the hash before each: the last one of each slot and action."""
    chosen: dict[tuple[object, ...], EventRow] = {}
    before: dict[int, str] = {}
    for row in kept_rows(connection):
        chosen[_key(row)], before[row["seq"]] = row, row["previous_hash"]
    seal = read_seal(connection)
    head = seal.hash if seal else GENESIS
    for row in pages(connection, seal.upto if seal else 0, last):
        replaced = chosen.get(key := _key(row))
        if replaced is not None:
            del before[replaced["seq"]]
        chosen[key], before[row["seq"]] = row, head
        head = row["hash"]
    kept = KeptDigest()
    for row in sorted(chosen.values(), key=lambda item: int(item["seq"])):
        kept.add(row["seq"], before[row["seq"]], row["hash"], row["mac"])
    return before, kept.kept()


def _key(row: EventRow) -> tuple[object, ...]:
    """What a later event of the same key replaces. Notes tell of several things of their subject: each counts."""
    if row["slot"] != NOTE:
        return row["subject"], row["slot"], row["action"]
    told = canonical.loads(row["after"] or row["before"] or "{}")
    about = tuple(told.get(name) for name in ("version", "instance", "triton_name"))
    path = told.get("path") if row["action"].startswith("source ") else None
    return row["subject"], NOTE, row["action"], row["version"], *about, path


def _seal_and_delete(tx: Transaction, seal: Seal, chosen: dict[int, str], kept: Kept) -> None:
    newest = read_seal(tx.connection)
    if (newest.upto if newest else 0) != seal.first_seq - 1:
        raise FailedPrecondition("Another command archived the same events meanwhile; nothing is deleted by this one.")
    tx.insert(
        archives,
        sealed_upto=seal.upto,
        first_seq=seal.first_seq,
        at=seal.at,
        hash=seal.hash,
        mac=seal.mac,
        file=seal.file,
        sha256=seal.sha256,
        archived_at=tx.now,
    )
    tx.connection.execute(kept_events.delete())
    tx.connection.execute(
        kept_events.insert(), [{"seq": seq, "previous_hash": before} for seq, before in sorted(chosen.items())]
    )
    for first in range(0, seal.upto + 1, DELETED_AT_ONCE):
        tx.connection.execute(
            events.delete().where(
                events.c.seq.between(first, min(first + DELETED_AT_ONCE - 1, seal.upto)),
                events.c.seq.not_in(sa.select(kept_events.c.seq)),
            )
        )
    tx.emit(
        HistoryArchived(
            first_seq=seal.first_seq,
            sealed_upto=seal.upto,
            until=seal.at,
            hash=seal.hash,
            file=seal.file,
            sha256=seal.sha256,
            kept=kept.number,
            kept_digest=kept.digest,
        )
    )
