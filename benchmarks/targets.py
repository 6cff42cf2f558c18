"""The figures that the request path is to reach, each as a line with what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.payloads import SMALL, size_name
from benchmarks.results import Json, find
from benchmarks.stand import GRPCIO, NATIVE, NGINX, WORKERS

Sections = Mapping[str, Mapping[str, Any]]
Measure = Callable[[Sections], float | None]

PER_VERSION, PER_DEVICE = "per-version", "per-device"
SHARED_MEMORY = "shared memory"


@dataclass(frozen=True)
class Target:
    """`limit` is the least value, or the greatest one if `at_most`. `measure` is None where its section did not run."""

    subject: str
    section: str
    limit: float
    unit: str
    measure: Measure
    at_most: bool = True

    def line(self, sections: Sections) -> str:
        """A row of a Markdown table."""
        found = self.measure(sections)
        sign = "<=" if self.at_most else ">="
        measured = "not measured" if found is None else f"{found:.4g}{self.unit}"
        cells = (self.subject, self.section, f"{sign} {self.limit:g}{self.unit}", measured, self.verdict(found))
        return f"| {' | '.join(cells)} |"

    def verdict(self, found: float | None) -> str:
        if found is None:
            return "-"
        return "yes" if (found <= self.limit if self.at_most else found >= self.limit) else "no"


def _row(section: str, key: str, **wanted: Any) -> Measure:
    def measure(sections: Sections) -> float | None:
        row = find(sections.get(section, {}), **wanted)
        return None if row is None else float(row[key])

    return measure


def _figure(section: str, *path: str) -> Measure:
    def measure(sections: Sections) -> float | None:
        value: Any = sections.get(section, {}).get("figures")
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return None if value is None else float(value)

    return measure


def _small(path: str, in_flight: int) -> Json:
    return {"payload": SMALL.name, "path": path, "in_flight": in_flight}


def _large(size: int) -> Measure:
    return _figure("large", SHARED_MEMORY, size_name(size), "p50_ratio")


def _hops(path: str) -> Measure:
    """What the bridge adds to a request, in hops of nginx."""

    def measure(sections: Sections) -> float | None:
        added = [_row("latency", "added_us", **_small(name, 1))(sections) for name in (path, NGINX)]
        ours, plain = added
        return None if ours is None or plain is None or plain <= 0 else ours / plain

    return measure


def _fastest(sections: Sections) -> float | None:
    """Of the supported ways to serve gRPC, the one that keeps most of Triton's requests."""
    found = [_row("throughput", "rate_ratio", **_small(path, 8))(sections) for path in (NATIVE, GRPCIO, WORKERS)]
    return max((ratio for ratio in found if ratio is not None), default=None)


def _grown(sections: Sections) -> float | None:
    """Memory of all processes after many large requests to that of before, with shared memory or without."""
    modes = sections.get("large", {}).get("figures", {}).values()
    return max((mode["memory_mb"]["after"] / mode["memory_mb"]["before"] for mode in modes), default=None)


def _worse_form(section: str) -> Measure:
    """Of JSON in rows and in columns."""

    def measure(sections: Sections) -> float | None:
        found = [_figure(section, form, "ratio")(sections) for form in ("rows", "columns")]
        return max((ratio for ratio in found if ratio is not None), default=None)

    return measure


TARGETS = (
    Target("4 floats, 8 in flight: requests/s to direct Triton's, native", "throughput", 0.75, "",
           _row("throughput", "rate_ratio", **_small(NATIVE, 8)), at_most=False),
    Target("the same, the fastest way to serve", "throughput", 0.75, "", _fastest, at_most=False),
    Target("the same, grpcio", "throughput", 0.5, "",
           _row("throughput", "rate_ratio", **_small(GRPCIO, 8)), at_most=False),
    Target("4 floats, 1 in flight: added latency to nginx's, native", "latency", 3, "", _hops(NATIVE)),
    Target("4 MB each way: p50 to direct Triton's gRPC", "large", 0.8, "", _large(4 << 20)),
    Target("64 MB each way: p50 to direct Triton's gRPC", "large", 0.8, "", _large(64 << 20)),
    Target("memory of bridge and Triton after 1,000 requests of 4 MB to that before", "large", 1.05, "", _grown),
    Target("runner: p50 to that of the bare model", "runner", 1.5, "", _figure("runner", PER_VERSION, "p50_ratio")),
    Target("ten small models, per-device", "memory", 500, " MB", _figure("memory", PER_DEVICE, "pss_mb")),
    Target("ten small models, per-version", "memory", 950, " MB", _figure("memory", PER_VERSION, "pss_mb")),
    Target("load of a small model", "memory", 0.6, " s", _figure("memory", PER_VERSION, "load_s")),
    Target("start, warm, to READY", "start", 3, " s", _figure("start", "warm_s")),
    Target("1,000 models in the routes: processor time of a request to that with one", "routes", 1.1, "",
           _figure("routes", "processor_ratio")),
    Target("1 MB of JSON, nine digits, rows or columns: to orjson and numpy", "rest_codec", 2, "",
           _worse_form("rest_codec")),
    Target("the same, processor time of the bridge for the whole request", "rest", 2, "", _worse_form("rest")),
)  # fmt: skip


def as_markdown(sections: Sections) -> str:
    head = "| what | section | target | measured | reached |\n|---|---|---|---|---|"
    return "\n".join([head, *(target.line(sections) for target in TARGETS)])
