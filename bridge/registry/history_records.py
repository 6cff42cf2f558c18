"""What the history is asked and what it answers. Times are microseconds UTC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bridge.registry.records import JsonObject


class Aspect(StrEnum):
    """What an event tells of its subject: somebody's intent, what a selector resolved to, or what was seen."""

    WANTED = "wanted"
    LIVE = "live"
    OBSERVED = "observed"


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Which events to show. None selects all; `since` is inclusive, `until` exclusive; `after` and `before` are
    sequence numbers that are left out themselves."""

    subject: str | None = None
    since: int | None = None
    until: int | None = None
    actor: str | None = None
    action: str | None = None
    after: int = 0
    limit: int = 100
    newest_first: bool = True
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """One aspect of a subject: its state since an event, and who caused that, how and why.

    A `state` of None is none: not wanted any more, nothing served. For a live fact `actor`, `source` and `reason` are
    those of what caused the move, and `action` says what that was.
    """

    state: JsonObject | None
    since: int
    seq: int
    actor: str
    source: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class SubjectState:
    """A subject at one time. `observed` has a fact for each version of a model, highest first; one for an instance."""

    subject: str
    wanted: Fact | None
    live: Fact | None
    observed: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class StateAt:
    """The state at a time, `seq` being the last event before it.

    `gap` is set where no bridge served at that time: since when, and until when, None for still.
    """

    at: int
    seq: int
    subjects: tuple[SubjectState, ...]
    gap: tuple[int, int | None] | None


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; `path` names it within the state (`policy.latest.num_versions`), empty for the whole."""

    path: str
    before: Any
    after: Any


def changes(before: Any, after: Any, path: str = "") -> Iterator[Change]:
    """Where two JSON values differ, by path; objects are compared key by key."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif before != after:
        yield Change(path, before, after)


@dataclass(frozen=True, slots=True)
class SubjectDiff:
    """What differs in one aspect of a subject. `events` are the sequence numbers that account for it, oldest first."""

    subject: str
    aspect: Aspect
    changes: tuple[Change, ...]
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two times."""

    from_at: int
    to_at: int
    subjects: tuple[SubjectDiff, ...]


@dataclass(frozen=True, slots=True)
class LiveInterval:
    """A time for which a selector resolved to the same thing; `end` is None while it still does.

    `actor`, `source` and `reason` are those of what began it, and `cause` says what that was.
    """

    subject: str
    state: JsonObject
    start: int
    end: int | None
    start_seq: int
    end_seq: int | None
    actor: str
    source: str
    reason: str
    cause: str
