"""What the rounds found, as medians and ratios: for people, for docs/performance.md and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.h2load import Load

BEGIN, END = "<!-- results -->", "<!-- end of results -->"
REFERENCE = "Triton"
"""The path that the others are compared with."""


@dataclass(frozen=True)
class Measurement:
    """All rounds of one call under one load."""

    protocol: str
    payload: str
    in_flight: int
    path: str
    loads: Sequence[Load]

    @property
    def latency_us(self) -> float:
        return median(load.latency_us for load in self.loads)

    @property
    def requests_per_second(self) -> float:
        return median(load.requests_per_second for load in self.loads)

    @property
    def situation(self) -> tuple[str, str, int]:
        return self.protocol, self.payload, self.in_flight


@dataclass(frozen=True)
class Row:
    """A measurement beside the reference of its situation. A ratio is the median over rounds, each against the
    reference of its own round, since the machine drifts; `latency_ratio` above 1 is slower, `rate_ratio` below 1 too.
    """

    measured: Measurement
    latency_ratio: float
    rate_ratio: float


def rows(measurements: Sequence[Measurement]) -> Iterator[Row]:
    references = {item.situation: item for item in measurements if item.path == REFERENCE}
    for item in measurements:
        pairs = list(zip(item.loads, references[item.situation].loads, strict=True))
        yield Row(
            item,
            median(load.latency_us / reference.latency_us for load, reference in pairs),
            median(load.requests_per_second / reference.requests_per_second for load, reference in pairs),
        )


def machine() -> dict[str, float]:
    """Cores that this process may use, memory in GiB, and how many processes wanted to run in the last minute."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "load_average_before": round(os.getloadavg()[0], 1),
    }


def as_json(measurements: Sequence[Measurement], machine: dict[str, float], versions: dict[str, str]) -> dict[str, Any]:
    return {
        "machine": machine,
        "versions": versions,
        "rounds": len(measurements[0].loads),
        "rows": [
            {
                "protocol": row.measured.protocol,
                "payload": row.measured.payload,
                "in_flight": row.measured.in_flight,
                "path": row.measured.path,
                "latency_us": round(row.measured.latency_us, 1),
                "requests_per_second": round(row.measured.requests_per_second, 1),
                "latency_ratio": round(row.latency_ratio, 2),
                "rate_ratio": round(row.rate_ratio, 2),
                "latencies_us": [round(load.latency_us, 1) for load in row.measured.loads],
                "rates": [round(load.requests_per_second, 1) for load in row.measured.loads],
            }
            for row in rows(measurements)
        ],
    }


def fill(page: str, results: dict[str, Any]) -> str:
    """`page` with the results between its two marks."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"the page lacks the marks {BEGIN} and {END}")
    return f"{head}{begin}\n{as_markdown(results)}\n{end}{tail}"


def as_markdown(results: dict[str, Any]) -> str:
    """The machine, and a table of the rows."""
    machine, versions = results["machine"], results["versions"]
    where = (
        f"{machine['cores']} cores, {machine['memory_gib']} GiB of memory, load average "
        f"{machine['load_average_before']} before the run; {results['rounds']} rounds; "
        f"Triton {versions['triton']}, TensorFlow {versions['tensorflow']}, grpcio {versions['grpcio']}."
    )
    head = "| protocol | payload | in flight | path | mean latency | requests/s | latency ratio | rate ratio |"
    lines = [where, "", head, "|---|---|---|---|---|---|---|---|"]
    for row in results["rows"]:
        lines.append(
            f"| {row['protocol']} | {row['payload']} | {row['in_flight']} | {row['path']} | {_time(row['latency_us'])} "
            f"| {row['requests_per_second']:.0f} | {row['latency_ratio']:.2f} | {row['rate_ratio']:.2f} |"
        )
    return "\n".join(lines)


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f} us" if microseconds < 1e4 else f"{microseconds / 1e3:.1f} ms"
