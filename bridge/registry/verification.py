"""Whether a history is whole, and whether the rows beside it are what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.errors import FailedPrecondition
from bridge.registry import canonical, guards
from bridge.registry.anchors import Anchor
from bridge.registry.chain import Break, Chain, EventRow, Link, is_genuine, pages
from bridge.registry.event_file import EventFile
from bridge.registry.expectations import Difference, Expectations
from bridge.registry.integrity_events import HistoryArchived
from bridge.registry.journal import FIRST, digest
from bridge.registry.sealing import KeptDigest, Seal, kept_rows, read_seals
from bridge.registry.tables import events, kept_events, meta

MAX_DIFFERENCES = 100
"""How many differences of rows are told."""

REPORTED_EVERY = 1000

Progress = Callable[[int, int], None]
"""Told how many events are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. `events` were read, the last of them `last` with `hash`; those up to `sealed_upto` are archived.

    `broken` is the first event that is wrong: what follows it was not looked at then, nor were the rows. `unguarded`
    names guards of the database that are gone, `unchecked` says what could not be decided, and `promises` what a
    verification like this one finds and what it does not.
    """

    deployment: str
    epoch: int
    events: int
    last: int
    hash: str
    sealed_upto: int
    with_key: bool
    anchor: Anchor | None
    broken: Break | None
    unguarded: tuple[str, ...]
    differences: tuple[Difference, ...]
    unchecked: tuple[str, ...]
    promises: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing wrong was found."""
        return self.broken is None and not self.unguarded and not self.differences

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; each difference and the broken event have their sentence in `text`."""
        value = asdict(self) | {"whole": self.whole}
        if self.broken is not None:
            value["broken"]["text"] = str(self.broken)
        value["differences"] = [asdict(item) | {"text": str(item)} for item in self.differences]
        return value


def verify(
    connection: Connection,
    key: bytes | None = None,
    anchor: Anchor | None = None,
    archived: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Verification:
    """Verify the history that `connection` sees as one snapshot, and the archives in the files `archived`.

    Memory does not grow with the number of events. Raises FailedPrecondition for an anchor of another deployment,
    InvalidArgument for one that was not made with `key`, or for a file that is no archive.
    """
    return _Verifier(connection, key, anchor, progress).run(archived)


class _Verifier:
    def __init__(
        self, connection: Connection, key: bytes | None, anchor: Anchor | None, progress: Progress | None
    ) -> None:
        self._connection = connection
        self._key = key
        self._anchor = anchor
        self._progress = progress
        self._seals = read_seals(connection)
        self._deployment = str(connection.execute(sa.select(meta.c.deployment_id)).scalar_one())
        self._expected = Expectations()
        self._archived: dict[str, Any] | None = None
        self._anchored = anchor is None
        self._done = 0
        self._total = int(connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one())
        sealed = self._seals[-1].link() if self._seals else Link()
        self._chain = Chain(sealed, key)
        self._sealed = sealed

    def run(self, archived: Sequence[Path]) -> Verification:
        self._check_anchor()
        broken = next(self._breaks(archived), None)
        compared = [] if broken else self._expected.differences(self._connection, sealed=bool(self._seals))
        head = self._chain.head
        return Verification(
            deployment=self._deployment,
            epoch=self._expected.epoch,
            events=self._done,
            last=head.seq,
            hash=head.hash,
            sealed_upto=self._sealed.seq,
            with_key=self._key is not None,
            anchor=self._anchor,
            broken=broken,
            unguarded=guards.missing(self._connection),
            differences=tuple(islice(compared, MAX_DIFFERENCES)),
            unchecked=() if broken else tuple(self._unchecked()),
            promises=tuple(self._promises(bool(broken))),
        )

    def _breaks(self, archived: Sequence[Path]) -> Iterator[Break]:
        """What is wrong, the earliest first."""
        yield from self._archives(archived)
        yield from self._strays()
        kept = KeptDigest()
        yield from self._kept(kept)
        yield from self._seal()
        yield from self._events()
        yield from self._end()
        yield from self._telling(kept)

    def _check_anchor(self) -> None:
        if self._anchor is None:
            return
        self._anchor.check(self._key)
        if self._anchor.deployment != self._deployment:
            raise FailedPrecondition(
                f"The anchor is of deployment {self._anchor.deployment}, the database of {self._deployment}."
            )

    def _archives(self, archived: Sequence[Path]) -> Iterator[Break]:
        """Archives that were given: sound in themselves, and those that were written when the events were deleted."""
        by_end = {seal.upto: seal for seal in self._seals}
        for path in archived:
            file = EventFile(path, self._key)
            for row in file.rows():
                yield from self._compare_with_anchor(row)
            seal = by_end.get(file.last)
            if seal is None or (file.last_hash, file.header.first) != (seal.hash, seal.first_seq):
                yield Break(file.header.first, f"is not archived in '{path.name}' but in another file")

    def _strays(self) -> Iterator[Break]:
        """Events where none can be: before the first, or archived and not kept."""
        stray = events.c.seq.not_in(sa.select(kept_events.c.seq))
        query = sa.select(sa.func.min(events.c.seq)).where(events.c.seq <= self._sealed.seq, stray)
        seq = self._connection.execute(query).scalar()
        if seq is not None:
            yield Break(
                seq, "is archived and was not kept, but is there" if seq >= FIRST else "stands before the first"
            )

    def _kept(self, kept: KeptDigest) -> Iterator[Break]:
        for row in kept_rows(self._connection):
            if row["seq"] is None:
                yield Break(row["kept_seq"], "is missing: it was archived and kept")
                return
            if row["hash"] != digest(row["previous_hash"], row):
                yield Break(row["seq"], "was changed: its hash does not fit")
            elif not self._is_genuine(row["hash"], row["mac"]):
                yield Break(row["seq"], "was rewritten by somebody without this audit key: its mac does not fit")
            kept.add(row["seq"], row["previous_hash"], row["hash"], row["mac"])
            yield from self._compare_with_anchor(row)
            yield from self._follow(row)

    def _seal(self) -> Iterator[Break]:
        """The archives follow one another, and the last was sealed by whoever has the key."""
        expected = FIRST
        for seal in self._seals:
            if seal.first_seq != expected or seal.upto < seal.first_seq:
                yield Break(expected, "is missing: no archive begins with it")
            if not self._is_genuine(seal.hash, seal.mac):
                yield Break(seal.upto, "was archived by somebody without this audit key: its mac does not fit")
            expected = seal.upto + 1
            yield from self._compare_with_anchor({"seq": seal.upto, "hash": seal.hash})

    def _events(self) -> Iterator[Break]:
        for row in pages(self._connection, self._sealed.seq):
            found = self._chain.follow(row)
            if found is not None:
                yield found
            yield from self._compare_with_anchor(row)
            yield from self._follow(row)

    def _end(self) -> Iterator[Break]:
        head, anchor = self._chain.head, self._anchor
        if anchor is not None and anchor.seq > head.seq:
            yield Break(head.seq + 1, f"is missing: the anchor names #{anchor.seq}, and the history ends before it")
        if self._key is not None and head.seq >= FIRST and self._chain.first_attested is None:
            yield Break(self._sealed.seq + 1, "has no mac, nor has any later event: nobody with a key attests them")

    def _telling(self, kept: KeptDigest) -> Iterator[Break]:
        """What was deleted was deleted by an archive step: its event says which archive and what was kept."""
        if not self._seals:
            return
        seal, told = self._seals[-1], self._archived
        if told is None or not _tells_of(told, seal):
            yield Break(seal.first_seq, "is missing: no event tells that it was archived")
        elif (told["kept"], told["kept_digest"]) != (kept.kept().number, kept.kept().digest):
            yield Break(seal.upto, "or an earlier one that was kept of the archives was taken away or exchanged")

    def _compare_with_anchor(self, row: EventRow) -> Iterator[Break]:
        if self._anchor is None or row["seq"] != self._anchor.seq:
            return
        self._anchored = True
        if row["hash"] != self._anchor.hash:
            yield Break(row["seq"], "is not the one that the anchor names: it or an earlier one was rewritten")

    def _follow(self, row: EventRow) -> Iterator[Break]:
        self._done += 1
        try:
            self._expected.follow(row)
            if row["action"] == HistoryArchived.action:
                self._archived = canonical.loads(row["after"])
        except (ValueError, LookupError, TypeError, AttributeError):
            yield Break(row["seq"], "says nothing that this release can read")
        if self._progress is not None and self._done % REPORTED_EVERY == 0:
            self._progress(self._done, self._total)

    def _is_genuine(self, hash: str, mac: str | None) -> bool:
        return self._key is None or mac is None or is_genuine(self._key, hash, mac)

    def _unchecked(self) -> Iterator[str]:
        if not self._anchored and self._anchor is not None:
            yield f"Event #{self._anchor.seq}, which the anchor names, is archived: give the archives by --archive."

    def _promises(self, broken: bool) -> Iterator[str]:
        yield (
            "Found is what was edited, taken away from the middle, put in or reordered without computing all hashes "
            "anew, guards of the database that are gone, and rows beside the events that differ from them."
        )
        if broken:
            yield "What comes after the first broken event was not looked at, nor were the rows beside the events."
        if self._key is not None:
            yield "By the key, a history that somebody without it rewrote or continued is found as well."
        if self._anchor is not None:
            yield f"By the anchor, any rewriting and any cut up to event #{self._anchor.seq} is found as well."
        yield from self._blind_spots()

    def _blind_spots(self) -> Iterator[str]:
        since = f" after event #{self._anchor.seq}" if self._anchor is not None else ""
        if self._key is None:
            yield f"Not found is a history that was rewritten with new hashes{since}: that needs --audit_key_file."
        newer = "a newer anchor" if self._anchor is not None else "--anchor"
        yield f"Not found is a history whose newest events{since} were cut off: that needs {newer}."


def _tells_of(told: dict[str, Any], seal: Seal) -> bool:
    return (told["sealed_upto"], told["first_seq"], told["hash"], told["until"], told["file"], told["sha256"]) == (
        seal.upto,
        seal.first_seq,
        seal.hash,
        seal.at,
        seal.file,
        seal.sha256,
    )
