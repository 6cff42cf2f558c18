"""Fills docs/performance.md and its pictures from benchmarks/results.json: python -m benchmarks.page"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import targets
from benchmarks.plot import draw

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "performance.md"
PICTURES = ("performance.svg", "performance.png")

ROW_HEAD = "| protocol | payload | in flight | path | p50 | requests/s | p50 ratio | rate ratio | added |"
ROW_SECTIONS = {
    "latency": "A small tensor, one at a time",
    "throughput": "A small tensor, several in flight",
    "sizes": "Sizes",
    "strings": "Strings",
    "rest": "REST",
    "routes": "1,000 models in the routes",
}


def main() -> int:
    renew(json.loads(RESULTS.read_text()), PAGE)
    return 0


def renew(results: Mapping[str, Any], page: Path) -> None:
    """Write the page's parts and draw its pictures beside it."""
    page.write_text(fill(page.read_text(), results))
    draw(results["sections"], [page.with_name(name) for name in PICTURES])


def fill(page: str, results: Mapping[str, Any]) -> str:
    """`page` with the results between its marks."""
    for mark, text in (("results", as_markdown(results)), ("profile", profile_markdown(results["sections"]))):
        page = _between(page, mark, text)
    return page


def _between(page: str, mark: str, text: str) -> str:
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    head, _, rest = page.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"the page lacks the marks {begin} and {end}")
    return f"{head}{begin}\n{text}\n{end}{tail}"


def as_markdown(results: Mapping[str, Any]) -> str:
    """The machine, the targets, and a table of each section."""
    sections = results["sections"]
    parts = [where(results), targets.as_markdown(sections)]
    for name, title in ROW_SECTIONS.items():
        if name in sections:
            parts += [f"### {title}", conditions(sections[name]), row_table(sections[name]["rows"])]
    parts += [text for name, text in figure_texts(sections) if name in sections]
    return "\n\n".join(parts)


def where(results: Mapping[str, Any]) -> str:
    machine, versions = results["machine"], results["versions"]
    return (
        f"{machine['cores']} cores, {machine['memory_gib']} GiB of memory; Triton {versions['triton']}, "
        f"TensorFlow {versions['tensorflow']}, grpcio {versions['grpcio']}."
    )


def conditions(section: Mapping[str, Any]) -> str:
    before, after = section["load_average"]
    quick = " A quick run, which only shows that everything works." if section["quick"] else ""
    return f"{section['rounds']} rounds; load average {before} before, {after} after.{quick}"


def row_table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [ROW_HEAD, "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['protocol']} | {row['payload']} | {row['in_flight']} | {row['path']} | {time(row['p50_us'])} "
            f"| {row['requests_per_second']:.0f} | {row['p50_ratio']:.2f} | {row['rate_ratio']:.2f} "
            f"| {time(row['added_us'])} |"
        )
    return "\n".join(lines)


def figure_texts(sections: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections whose figures are no comparison of calls, each as a heading and a table."""
    titles = {
        "routes": "Processor time of a request by models in the routes",
        "rest": "Processor time of a whole REST request of 1 MB, against orjson and numpy",
        "rest_codec": "JSON of 1 MB in the bridge, against orjson and numpy",
        "large": "Large tensors with shared memory and without",
        "runner": "The runner",
        "memory": "Ten small models",
        "start": "Start",
    }
    return [
        (
            name,
            f"### {title}\n\n{conditions(sections[name])}\n\n{figure_table(chosen(name, sections[name]))}",
        )
        for name, title in titles.items()
        if name in sections
    ]


def chosen(name: str, section: Mapping[str, Any]) -> Mapping[str, Any]:
    """The figures of a section that fit into a table; the file of results has all."""
    figures: Mapping[str, Any] = section["figures"]
    if name != "large":
        return figures
    return {
        mode: {
            **{f"{size}, p50 ratio": of["p50_ratio"] for size, of in found.items() if "p50_ratio" in of},
            **{f"MB in all {moment} many of 4 MB": value for moment, value in found["memory_mb"].items()},
        }
        for mode, found in figures.items()
    }


def figure_table(figures: Mapping[str, Any]) -> str:
    """A line for each mapping, with its own values in columns, and then one for each plain value."""
    nested = {name: dict(flat(value)) for name, value in figures.items() if isinstance(value, Mapping)}
    columns = list(dict.fromkeys(column for values in nested.values() for column in values))
    lines = ["| | " + " | ".join(columns or ["value"]) + " |", "|---" * (1 + len(columns or [""])) + "|"]
    for name, values in nested.items():
        lines.append(f"| {_words(name)} | " + " | ".join(str(values.get(column, "")) for column in columns) + " |")
    lines += [f"| {_words(name)} | {value} |" for name, value in figures.items() if name not in nested]
    return "\n".join(lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def flat(figures: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in figures.items():
        name = _words(f"{prefix}{key}")
        found += flat(value, f"{name}, ") if isinstance(value, Mapping) else [(name, value)]
    return found


def profile_markdown(sections: Mapping[str, Any]) -> str:
    """Two tables: by function and by library."""
    if "profile" not in sections:
        return "Not recorded."
    section = sections["profile"]
    figures = section["figures"]
    functions = ["| function | own | with what it calls |", "|---|---|---|"]
    functions += [f"| `{f['function']}` | {f['own']:.1%} | {f['with_callees']:.1%} |" for f in figures["functions"]]
    libraries = ["| library | share |", "|---|---|"]
    libraries += [f"| {entry['library']} | {entry['share']:.1%} |" for entry in figures["libraries"]]
    return "\n\n".join([conditions(section), "\n".join(functions), "\n".join(libraries)])


def time(microseconds: float) -> str:
    return f"{microseconds:.0f} us" if abs(microseconds) < 1e4 else f"{microseconds / 1e3:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
