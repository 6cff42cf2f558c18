"""What an operator may ask the history, once for the admin API, the console and the commands."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from bridge import moments
from bridge.clock import Clock, SystemClock
from bridge.errors import InvalidArgument, NotFound
from bridge.registry.history_records import Diff, HistoryQuery, LiveInterval, StateAt
from bridge.registry.records import EventRecord
from bridge.registry.registry import Registry

SELECTORS = ("model:", "label:", "vmodel:")


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which events to show, as people write it; empty selects all. `limit` is how many at most.

    `after` and `before` are sequence numbers that are left out themselves.
    """

    subject: str = ""
    since: str = ""
    until: str = ""
    actor: str = ""
    action: str = ""
    after: int = 0
    limit: int = 100
    before: int | None = None


class HistoryOperations:
    """Subjects are named in full or by a name that only one has; times are ISO 8601, with an offset or in UTC.

    Reads the registry on threads of its own, so that long answers hold nobody up. Each raises BridgeError with one
    sentence: InvalidArgument for what cannot be read or is in the future, NotFound for what the history does not know,
    OUT_OF_RANGE for times before it, FailedPrecondition for times that are archived.
    """

    def __init__(self, registry: Registry, clock: Clock | None = None) -> None:
        self._registry = registry
        self._clock = clock or SystemClock()

    async def history(self, wanted: HistoryFilter) -> tuple[EventRecord, ...]:
        """The events that fit, the newest first."""
        query = HistoryQuery(
            subject=await self._subject(wanted.subject),
            since=self._time(wanted.since),
            until=self._time(wanted.until),
            actor=wanted.actor or None,
            action=wanted.action or None,
            after=wanted.after,
            limit=wanted.limit,
            before=wanted.before,
        )
        return await asyncio.to_thread(self._registry.history, query)

    async def past(self, seq: int, limit: int) -> tuple[EventRecord, ...]:
        """The events after the one with that number, the oldest first."""
        query = HistoryQuery(after=seq, limit=limit, newest_first=False)
        return await asyncio.to_thread(self._registry.history, query)

    async def newest(self) -> int:
        """The sequence number of the last event, 0 before the first."""
        found = await asyncio.to_thread(self._registry.history, HistoryQuery(limit=1))
        return found[0].seq if found else 0

    def now(self) -> int:
        """Microseconds UTC."""
        return self._clock.now()

    async def at(self, time: str, subject: str = "") -> StateAt:
        """The state at a time, or just after an event (`#SEQ`), of one subject or of all."""
        about = await self._subject(subject)
        if time.startswith("#"):
            state = await asyncio.to_thread(self._registry.state_at_seq, _sequence(time), about)
        else:
            state = await asyncio.to_thread(self._registry.state_at, moments.parse(time, self.now()), about)
        if about is not None and not state.subjects:
            raise NotFound(f"The history knows nothing of {about} before {moments.describe(state.at)}.")
        return state

    async def diff(self, earlier: str, later: str, subject: str = "") -> Diff:
        """What differs at the second time from the first."""
        from_at, to_at = (moments.parse(text, self.now()) for text in (earlier, later))
        return await asyncio.to_thread(self._registry.diff, from_at, to_at, await self._subject(subject))

    async def live(
        self, subject: str, version: int | None = None, latest: int | None = None
    ) -> tuple[LiveInterval, ...]:
        """For how long a model, label or vmodel resolved to what, oldest first.

        With `version` the times for which that version of the model could be called by its number, or the label meant
        it; with `latest` only what the last moves made, so many.
        """
        about = await self._subject(subject)
        if about is None or not about.startswith(SELECTORS):
            raise InvalidArgument(f"{about or 'Nothing'} is not what requests name; name a model, a label or a vmodel.")
        return await asyncio.to_thread(self._registry.live_intervals, about, version, latest)

    async def moves(self, subject: str, latest: int | None = None) -> tuple[LiveInterval, ...]:
        """As `live`, but with an interval for each move, also where only other versions of a model came or went."""
        return await asyncio.to_thread(self._registry.live_moves, subject, latest)

    async def subjects(self, prefix: str = "") -> tuple[str, ...]:
        """The subjects that the history knows, by name."""
        return await asyncio.to_thread(self._registry.subjects, prefix)

    async def _subject(self, text: str) -> str | None:
        return await asyncio.to_thread(self._registry.find_subject, text) if text else None

    def _time(self, text: str) -> int | None:
        return moments.parse(text, self.now()) if text else None


def _sequence(text: str) -> int:
    digits = text.removeprefix("#")
    if not digits.isdecimal():
        raise InvalidArgument(f"'{text}' is not an event; write # and its sequence number.")
    return int(digits)
