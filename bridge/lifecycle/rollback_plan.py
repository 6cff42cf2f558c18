"""What a rollback would do, before it does anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from bridge.registry.history_records import Change
from bridge.registry.records import Actor


@dataclass(frozen=True, slots=True)
class ContentCheck:
    """A content that a rollback needs. `place` is where it lies now, empty where `problem` says why it is not there."""

    version: int
    fingerprint: str
    path: str
    place: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What going back to just after the event `seq`, at `at` (microseconds UTC), would change.

    A `refusal` says in one sentence why it cannot be done; no `changes` are none needed.
    """

    subject: str
    seq: int
    at: int
    changes: tuple[Change, ...] = ()
    contents: tuple[ContentCheck, ...] = ()
    refusal: str = ""

    @property
    def reference(self) -> str:
        """How the history names what is gone back to."""
        return f"#{self.seq}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and what makes it so. Raises BridgeError, and then nothing has changed."""

    plan: RollbackPlan
    work: Callable[[Actor], Awaitable[None]]


class RollbackKind(Protocol):
    """How subjects of one kind are rolled back. `name` is the subject without its kind."""

    async def last_change(self, name: str) -> int:
        """The event before the last change. Raises FailedPrecondition where there was none."""

    async def prepare(self, name: str, seq: int) -> Prepared:
        """Plan to go back to just after an event. Raises BridgeError where that says nothing of the subject."""


def difference(path: str, before: object, after: object) -> tuple[Change, ...]:
    """One change, or none where nothing differs."""
    return () if before == after else (Change(path, before, after),)
