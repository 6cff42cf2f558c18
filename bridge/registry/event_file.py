"""Events as JSON lines: exports and archives.

The first line says what follows: the deployment, its epoch, the first sequence number and the hash before it. Then each
event is one object of the columns that are not null; `before` and `after` are text, exactly as the hash covers it. The
last line repeats where the file ends, so that a file that was cut shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import canonical, json_lines
from bridge.registry.chain import Chain, EventRow, Link
from bridge.registry.tables import events

FORMAT = "triton-bridge events"
VERSION = 1

COLUMNS = tuple(column.name for column in events.columns if column.server_default is None)
"""What a file holds of an event: all but what the database generates."""


@dataclass(frozen=True, slots=True)
class Header:
    """`first` is the sequence number of the first event, or of the next one if there is none."""

    deployment: str
    epoch: int
    first: int
    previous_hash: str


def lines(header: Header, rows: Iterable[EventRow]) -> Iterator[str]:
    """The lines of a file with these events, without line ends."""
    yield canonical.dumps({"format": FORMAT, "version": VERSION, **asdict(header)})
    last, hash = header.first - 1, header.previous_hash
    for row in rows:
        yield canonical.dumps({name: row[name] for name in COLUMNS if row[name] is not None})
        last, hash = row["seq"], row["hash"]
    yield canonical.dumps({"last": last, "hash": hash})


class EventFile:
    """Reads a file and checks that its events follow one another; with the audit key their macs as well.

    Raises InvalidArgument for what is no such file.
    """

    def __init__(self, path: Path, key: bytes | None = None) -> None:
        self.path = path
        self.header = _header(path)
        self.last = self.header.first - 1
        self.last_hash = self.header.previous_hash
        self.sha256 = ""
        """Of the whole file, once `rows` came to its end."""
        self._key = key

    def rows(self) -> Iterator[EventRow]:
        """Every event. Raises FailedPrecondition at the first that is broken, or if the file was cut."""
        chain = Chain(Link(self.last, self.last_hash), self._key)
        whole = hashlib.sha256()
        end: dict[str, Any] | None = None
        for number, raw, value in json_lines.read(self.path):
            whole.update(raw)
            if end is not None:
                raise InvalidArgument(f"The file '{self.path}' goes on after its last line, in line {number}.")
            if number > 1 and "last" in value:
                end = value
            elif number > 1:
                yield self._checked(chain, number, value)
        if end is None or (end["last"], end.get("hash")) != (self.last, self.last_hash):
            raise FailedPrecondition(f"The file '{self.path}' ends after event #{self.last}: the rest was cut off.")
        self.sha256 = whole.hexdigest()

    def _checked(self, chain: Chain, number: int, value: Mapping[str, Any]) -> EventRow:
        row = _row(self.path, number, value)
        found = chain.follow(row)
        if found is not None:
            raise FailedPrecondition(f"Event #{found.seq} in '{self.path}' {found.what}.")
        self.last, self.last_hash = row["seq"], row["hash"]
        return row


def _header(path: Path) -> Header:
    value = json_lines.first(path, FORMAT, VERSION, "bridge export events")
    try:
        return Header(str(value["deployment"]), int(value["epoch"]), int(value["first"]), str(value["previous_hash"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"The first line of '{path}' is not as `bridge export events` writes it.") from error


_NUMBERS = frozenset({"seq", "at", "version"})


def _row(path: Path, number: int, value: Mapping[str, Any]) -> EventRow:
    """The event with all columns. Raises InvalidArgument for one of a newer release or of other types."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | dict(value)
    unknown = row.keys() - set(COLUMNS)
    if unknown:
        raise InvalidArgument(f"Line {number} of '{path}' has a '{min(unknown)}', which this release does not know.")
    for name, item in row.items():
        wrong = item is None if not events.c[name].nullable else False
        if wrong or (item is not None and type(item) is not (int if name in _NUMBERS else str)):
            raise InvalidArgument(f"Line {number} of '{path}' has no right '{name}'.")
    return row
