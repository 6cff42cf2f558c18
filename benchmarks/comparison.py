"""Interleaved rounds: each call in each round, since machines drift."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.calls import Call, WrongAnswer
from benchmarks.h2load import Load
from benchmarks.payloads import Payload
from benchmarks.results import Measurement

SIZE_TOLERANCE = 0.01
WARM_UP_SECONDS = 0.2
LEAST_REQUESTS = 2


@dataclass(frozen=True)
class Effort:
    """How many rounds, and about how many seconds each measurement in one takes."""

    rounds: int
    seconds: float


def compare(
    protocol: str, payload: Payload, calls: Sequence[Call], in_flight: int, effort: Effort, scratch: Path
) -> list[Measurement]:
    """Check each call's answer, find by an uncounted run how many requests a measurement takes, then measure."""
    sizes = [call.verify() for call in calls]
    counts = [_calibrate(call, in_flight, effort.seconds, scratch) for call in calls]
    loads: list[list[Load]] = [[] for _ in calls]
    for _ in range(effort.rounds):
        for call, size, count, found in zip(calls, sizes, counts, loads, strict=True):
            found.append(_measure(call, size, count, in_flight, scratch))
    print(f"measured {protocol}, {payload.name}, {in_flight} in flight", file=sys.stderr, flush=True)
    return [
        Measurement(protocol, payload.name, payload.size, in_flight, call.path, found)
        for call, found in zip(calls, loads, strict=True)
    ]


def _calibrate(call: Call, in_flight: int, seconds: float, scratch: Path) -> int:
    """The requests that take `seconds`, after a first guess that is itself tried for a moment."""
    begin = perf_counter()
    call.ask()
    guess = max(LEAST_REQUESTS, int(min(seconds, WARM_UP_SECONDS) / (perf_counter() - begin)))
    rate = call.load(guess * in_flight, in_flight, scratch).requests_per_second
    return max(in_flight * LEAST_REQUESTS, int(rate * seconds))


def _measure(call: Call, size: int, requests: int, in_flight: int, scratch: Path) -> Load:
    """The answers have to have the size of the one whose values were checked, since h2load looks at no value."""
    load = call.load(requests, in_flight, scratch)
    if abs(load.body_bytes - size) > SIZE_TOLERANCE * size:
        raise WrongAnswer(f"{call.path}: answers of {load.body_bytes:.0f} bytes instead of {size}")
    return load
