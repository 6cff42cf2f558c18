"""Timelines: which version was live when, as lanes of segments within a window of time. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from bridge.registry.history_records import LiveInterval

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
STEPS = tuple(
    [n * SECOND for n in (1, 2, 5, 10, 15, 30)]
    + [n * MINUTE for n in (1, 2, 5, 10, 15, 30)]
    + [n * HOUR for n in (1, 2, 3, 6, 12)]
    + [n * DAY for n in (1, 2, 7, 14, 30, 90, 180, 365)]
)
"""What may lie between two marks of the axis, in microseconds."""
MARKS = 6
"""Of the axis, at most."""
LEAST_WIDTH = 0.4
"""Per cent: what is shorter would not be seen."""
TONES = 6
"""Versions next to each other look different; their numbers tell them apart."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A time for which a lane showed one thing. `x` and `width` are per cent of the window; `end` None is now.

    The same thing has the same tone in every lane.
    """

    text: str
    start: int
    end: int | None
    x: float
    width: float
    tone: int


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment at `x` per cent of the window."""

    text: str
    at: int
    x: float


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    segments: tuple[Segment, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """A window of time, microseconds UTC, with its axis and its lanes."""

    start: int
    end: int
    axis: tuple[Mark, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened."""

    at: int
    text: str


def build(
    live: Mapping[str, Sequence[LiveInterval]],
    failures: Sequence[Moment],
    now: int,
    span: int | None = None,
) -> Timeline:
    """The timeline of the last `span` microseconds; without it, of everything there is.

    `live` gives intervals by lane, oldest first; lanes without anything in the window are left out.
    """
    start = now - span if span is not None else _first(live, failures, now)
    window = _Window(start, now)
    lanes = [Lane(name, tuple(window.segments(intervals))) for name, intervals in live.items()]
    lanes.append(Lane("failures", marks=tuple(window.marks(failures))))
    return Timeline(start, now, tuple(_axis(window)), tuple(lane for lane in lanes if lane.segments or lane.marks))


def by_version(moves: Iterable[LiveInterval]) -> dict[int, list[LiveInterval]]:
    """When each version of a model could be called by its number, the highest first; pauses separate.

    `moves` are intervals of the model in which neither its version nor the others changed.
    """
    found: dict[int, list[LiveInterval]] = {}
    for interval in moves:
        for version in interval.state.get("versions", ()):
            known = found.setdefault(version, [])
            own = replace(interval, state={**interval.state, "version": version})
            if known and known[-1].end == own.start:
                earlier = known.pop()
                own = replace(own, start=earlier.start, start_seq=earlier.start_seq)
            known.append(own)
    return {version: found[version] for version in sorted(found, reverse=True)}


def named(state: Mapping[str, object]) -> str:
    """What a selector resolved to, in a word: a version, or the model that a vmodel means."""
    return str(state["version"]) if "version" in state else str(state.get("model", ""))


def _first(live: Mapping[str, Sequence[LiveInterval]], failures: Sequence[Moment], now: int) -> int:
    starts = [intervals[0].start for intervals in live.values() if intervals]
    first = min([*starts, *(failure.at for failure in failures)], default=now - HOUR)
    return min(first, now - SECOND)


class _Window:
    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self._tones: dict[str, int] = {}

    def x(self, at: int) -> float:
        return round(100 * (at - self.start) / (self.end - self.start), 3)

    def segments(self, intervals: Sequence[LiveInterval]) -> Iterator[Segment]:
        for interval in intervals:
            text = named(interval.state)
            tone = self._tones.setdefault(text, len(self._tones) % TONES)
            end = interval.end if interval.end is not None else self.end
            if end <= self.start or interval.start >= self.end:
                continue
            x = self.x(max(interval.start, self.start))
            width = max(LEAST_WIDTH, round(self.x(min(end, self.end)) - x, 3))
            yield Segment(text, interval.start, interval.end, min(x, 100 - LEAST_WIDTH), width, tone)

    def marks(self, moments: Iterable[Moment]) -> Iterator[Mark]:
        for moment in moments:
            if self.start <= moment.at <= self.end:
                yield Mark(moment.text, moment.at, self.x(moment.at))


def _axis(window: _Window) -> Iterator[Mark]:
    span = window.end - window.start
    step = next((step for step in STEPS if span // step <= MARKS), span // MARKS)
    for at in range(window.start - window.start % step + step, window.end, step):
        yield Mark(_clock(at, step), at, window.x(at))


def _clock(at: int, step: int) -> str:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    if step >= DAY:
        return f"{time:%Y-%m-%d}"
    midnight = (time.hour, time.minute, time.second) == (0, 0, 0)
    return f"{time:%Y-%m-%d}" if midnight else f"{time:%H:%M:%S}" if step < MINUTE else f"{time:%H:%M}"
