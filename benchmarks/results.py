"""What the rounds of a comparison found, as medians and ratios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.h2load import Load

Json = dict[str, Any]

REFERENCE = "Triton"
"""The path that the others are compared with."""


@dataclass(frozen=True)
class Measurement:
    """All rounds of one call under one load. `size` is that of the tensor's elements, in bytes."""

    protocol: str
    payload: str
    size: int
    in_flight: int
    path: str
    loads: Sequence[Load]

    @property
    def p50_us(self) -> float:
        return median(load.p50_us for load in self.loads)

    @property
    def requests_per_second(self) -> float:
        return median(load.requests_per_second for load in self.loads)

    @property
    def situation(self) -> tuple[str, str, int]:
        return self.protocol, self.payload, self.in_flight


@dataclass(frozen=True)
class Row:
    """A measurement beside the reference of its situation. A ratio or difference is the median over rounds, each
    against the reference of its own round, since the machine drifts; a `p50_ratio` above 1 is slower, a `rate_ratio`
    below 1 too.
    """

    measured: Measurement
    p50_ratio: float
    rate_ratio: float
    added_us: float

    def as_json(self) -> Json:
        measured = self.measured
        return {
            "protocol": measured.protocol,
            "payload": measured.payload,
            "size": measured.size,
            "in_flight": measured.in_flight,
            "path": measured.path,
            "p50_us": round(measured.p50_us, 1),
            "requests_per_second": round(measured.requests_per_second, 1),
            "p50_ratio": round(self.p50_ratio, 3),
            "rate_ratio": round(self.rate_ratio, 3),
            "added_us": round(self.added_us, 1),
            "p50s_us": [round(load.p50_us, 1) for load in measured.loads],
            "rates": [round(load.requests_per_second, 1) for load in measured.loads],
        }


def rows(measurements: Sequence[Measurement]) -> Iterator[Row]:
    references = {item.situation: item for item in measurements if item.path == REFERENCE}
    for item in measurements:
        pairs = list(zip(item.loads, references[item.situation].loads, strict=True))
        yield Row(
            item,
            median(load.p50_us / reference.p50_us for load, reference in pairs),
            median(load.requests_per_second / reference.requests_per_second for load, reference in pairs),
            median(load.p50_us - reference.p50_us for load, reference in pairs),
        )


def as_json(measurements: Sequence[Measurement]) -> list[Json]:
    return [row.as_json() for row in rows(measurements)]


def find(section: Mapping[str, Any], **wanted: Any) -> Json | None:
    """The row of a section with these values; None where there is none."""
    return next((row for row in section.get("rows", ()) if wanted.items() <= row.items()), None)
