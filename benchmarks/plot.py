"""The picture of docs/performance.md: latency by size, and requests per second by requests in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.payloads import SMALL, size_name
from benchmarks.stand import GRPCIO, NATIVE, NGINX, TRITON, WORKERS

PATHS = (TRITON, NGINX, NATIVE, GRPCIO, WORKERS)
COLORS = dict(zip(PATHS, ("#333333", "#8c8c8c", "#0b6bcb", "#d9730d", "#2a8f4f"), strict=True))
HASH_SALT = "triton-bridge"


def draw(sections: Mapping[str, Mapping[str, Any]], targets: Sequence[Path]) -> None:
    """Write the picture to each of `targets` in the format of its suffix; the same results give the same SVG."""
    import matplotlib  # the sections without a picture do without it

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": HASH_SALT, "font.size": 9, "axes.spines.top": False}):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
        _draw_sizes(left, sections.get("sizes", {}).get("rows", ()))
        small = [row for name in ("latency", "throughput") for row in sections.get(name, {}).get("rows", ())]
        _draw_rates(right, small)
        for target in targets:
            figure.savefig(target, dpi=130, metadata={"Date": None} if target.suffix == ".svg" else None)
        pyplot.close(figure)


def _draw_sizes(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.axhline(1, color=COLORS[TRITON], linewidth=1, label=TRITON)
    for path in (NATIVE, GRPCIO):
        points = sorted(
            (row["size"], row["p50_ratio"]) for row in rows if row["path"] == path and row["in_flight"] == 1
        )
        axes.plot(*zip(*points, strict=True), marker="o", color=COLORS[path], label=path) if points else None
    sizes = sorted({row["size"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [size_name(size) for size in sizes], rotation=45)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("p50 to direct Triton's")
    axes.set_title("One request at a time, by size each way")
    axes.legend(frameon=False)


def _draw_rates(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    counts = sorted({row["in_flight"] for row in rows})
    paths = [path for path in PATHS if any(row["path"] == path for row in rows)]
    width = 0.8 / max(1, len(paths))
    for number, path in enumerate(paths):
        rates = {row["in_flight"]: row["requests_per_second"] for row in rows if row["path"] == path}
        places = [index + (number - (len(paths) - 1) / 2) * width for index in range(len(counts))]
        axes.bar(places, [rates.get(count, 0) for count in counts], width, color=COLORS[path], label=path)
    axes.set_xticks(range(len(counts)), [f"{count} in flight" for count in counts])
    axes.set_ylabel("requests/s")
    axes.set_title(f"Predict of {SMALL.name}")
    axes.legend(frameon=False)
