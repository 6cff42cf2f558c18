"""What can happen to the history itself, one dataclass each."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.registry.events import Event
from bridge.registry.records import JsonObject


@dataclass(frozen=True)
class HistoryArchived(Event):
    """Events from `first_seq` to `sealed_upto` were written to `file` and deleted, but for `kept` of them.

    `kept_digest` is over every kept event of this and earlier archives; `until` is the time of the last sealed event.
    """

    action = "history archived"
    first_seq: int
    sealed_upto: int
    until: int
    hash: str
    file: str
    sha256: str
    kept: int
    kept_digest: str


@dataclass(frozen=True)
class EpochEvent(Event):
    """Base of the events that begin a new epoch of the chain; `continues` is the anchor that it goes on from."""

    epoch: int
    continues: JsonObject
    file: str


@dataclass(frozen=True)
class HistoryRestored(EpochEvent):
    """The database was restored from a backup: what had happened after it is not known here."""

    action = "history restored"


@dataclass(frozen=True)
class HistoryImported(EpochEvent):
    """The events before came from files; the rows beside them did not, so this database begins without any."""

    action = "history imported"
