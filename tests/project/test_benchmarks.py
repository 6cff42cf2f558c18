"""The benchmark's reading of h2load and py-spy, its arithmetic, its lines, and the page that it fills."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import nginx
from benchmarks.__main__ import ALONE, ON_STAND, parse
from benchmarks.calls import identity_call, infer_call, predict_call, rest_infer_call, rest_predict_call
from benchmarks.comparison import Effort
from benchmarks.h2load import PROGRAM, Load, LoadFailed
from benchmarks.h2load import parse as parse_load
from benchmarks.hot_path import shares
from benchmarks.page import fill
from benchmarks.payloads import SMALL, floats, nine_digits, sized, strings
from benchmarks.plot import draw
from benchmarks.record import Record
from benchmarks.rest_codec import rest_codec
from benchmarks.results import Measurement, as_json, rows
from benchmarks.stand import BARE, GRPCIO, NATIVE, NGINX, TRITON, WORKERS
from benchmarks.targets import TARGETS, as_markdown

ROOT = Path(__file__).resolve().parents[2]
RESULTS = json.loads((ROOT / "benchmarks" / "results.json").read_text())
REPORT = """
finished in 1.02s, 3305.36 req/s, 551.00KB/s
requests: 1000 total, 1000 started, 1000 done, {succeeded} succeeded, {failed} failed, 0 errored, 0 timeout
status codes: {succeeded} 2xx, 0 3xx, 0 4xx, {failed} 5xx
traffic: 165.05KB (169011) total, 60.55KB (62000) headers (space savings 76.60%), 74.22KB (76000) data
"""
LOG = "1796042244000001\t200\t180\n1796042244000002\t200\t1940\n1796042244000003\t200\t296\n"


def test_report_is_read() -> None:
    assert parse_load(REPORT.format(succeeded=1000, failed=0), LOG) == Load(1000, 296.0, 3305.36, 76.0)


def test_failed_requests_fail_the_benchmark() -> None:
    with pytest.raises(LoadFailed, match="3 of 1000 requests failed"):
        parse_load(REPORT.format(succeeded=997, failed=3), LOG)


def test_report_without_figures_is_refused() -> None:
    with pytest.raises(LoadFailed, match="has no"):
        parse_load("h2load: connection refused", "")


def measurement(path: str, latency: float, rate: float, *, in_flight: int = 1) -> Measurement:
    """Of three rounds; the machine was twice as slow in the second, and three times in the third."""
    loads = [Load(10, latency * slow, rate / slow, 1.0) for slow in (1, 2, 3)]
    return Measurement("gRPC", SMALL.name, SMALL.size, in_flight, path, loads)


def test_ratios_compare_within_a_round() -> None:
    found = list(rows([measurement(TRITON, 100.0, 1000.0), measurement(NATIVE, 150.0, 800.0)]))
    ratios = [(row.p50_ratio, row.rate_ratio, row.added_us) for row in found]
    assert ratios == [(1.0, 1.0, 0.0), (1.5, pytest.approx(0.8), 100.0)]


def line(sections: dict[str, Any], subject: str) -> str:
    (found,) = [text for text in as_markdown(sections).splitlines() if subject in text]
    return found


@pytest.mark.parametrize(("latency", "reached"), [(280.0, "2.25 | yes"), (340.0, "3 | yes"), (348.0, "3.1 | no")])
def test_lines_say_what_was_reached(latency: float, reached: str) -> None:
    paths = [(TRITON, 100.0), (NGINX, 180.0), (NATIVE, latency)]
    section = {"rows": as_json([measurement(path, p50, 1000.0) for path, p50 in paths])}
    assert line({"latency": section}, "added latency").endswith(f"| <= 3 | {reached} |")


def test_lines_without_measurement_say_so() -> None:
    assert as_markdown({}).count("| not measured | - |") == len(TARGETS)


def test_sections_that_do_not_run_keep_their_results(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first = Record(path, ["one", "two"])
    first.of_triton("2.51.0")
    first.add("two", {"rounds": 5})
    Record(path, ["one", "two"]).add("one", {"rounds": 1})
    content = json.loads(path.read_text())
    assert [*content["sections"].items()] == [("one", {"rounds": 1}), ("two", {"rounds": 5})]
    assert content["versions"]["triton"] == "2.51.0"


def test_every_line_names_a_section() -> None:
    assert {target.section for target in TARGETS} <= {*ON_STAND, *ALONE}


def test_unknown_sections_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["latency", "nothing"])
    assert "there is no section nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "payload",
    [SMALL, sized(64), floats("digits", nine_digits(5)), strings("strings", [b"a", b"", b"longer"])],
    ids=repr,
)
def test_calls_carry_their_tensors(payload: Any) -> None:
    calls = [
        predict_call("bridge", "", payload),
        infer_call("Triton", "", "half", payload),
        identity_call("bare", "", "bare", payload),
    ]
    if payload.x.dtype != object:
        calls += [rest_predict_call("bridge", "", payload, row=True), rest_infer_call("Triton", "", "half", payload)]
    assert all(len(call.body) >= payload.size // 4 for call in calls)


def test_profiles_are_counted_by_function() -> None:
    stacks = ["main (a/b/app.py:1);run (a/b/loop.py:7);write (a/b/out.py:3) 3", "main (a/b/app.py:1) 1"]
    assert shares(stacks) == [
        {"function": "write (b/out.py)", "own": 0.75, "with_callees": 0.75},
        {"function": "main (b/app.py)", "own": 0.25, "with_callees": 1.0},
    ]


def test_json_section_runs(tmp_path: Path) -> None:
    figures = rest_codec(Effort(rounds=1, seconds=0.0), tmp_path)["figures"]
    assert {figures[form]["body_bytes"] // 100_000 for form in ("rows", "columns")} <= {9, 10, 11}
    assert all(figures[form]["ratio"] > 0 for form in ("rows", "columns"))


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="needs h2load")
def test_section_runs_on_all_servers(tmp_path: Path) -> None:
    """Half a minute, most of it for the start of a Triton and four bridges."""
    page, output = tmp_path / "performance.md", tmp_path / "results.json"
    shutil.copy(ROOT / "docs" / "performance.md", page)
    command = [sys.executable, "-m", "benchmarks", "latency", "routes", "--quick", f"--page={page}"]
    subprocess.run([*command, f"--output={output}"], check=True, cwd=ROOT, timeout=110)
    sections = json.loads(output.read_text())["sections"]
    assert {row["path"] for row in sections["latency"]["rows"]} >= {TRITON, NATIVE, GRPCIO, WORKERS, BARE}
    assert sections["routes"]["figures"]["processor_ratio"] > 0
    assert page.with_suffix(".png").stat().st_size > 0


@pytest.mark.skipif(not nginx.available(), reason="needs nginx with HTTP/2")
def test_nginx_listens(tmp_path: Path) -> None:
    with nginx.nginx(tmp_path, "127.0.0.1:1") as address:
        assert address.startswith("127.0.0.1:")


def test_page_shows_the_committed_results() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert fill(page, RESULTS) == page


def test_picture_shows_the_committed_results(tmp_path: Path) -> None:
    """Another release of the library may place text elsewhere; the same one draws the same picture twice."""
    pictures = [tmp_path / "first.svg", tmp_path / "second.svg"]
    for picture in pictures:
        draw(RESULTS["sections"], [picture])
    assert pictures[0].read_text() == pictures[1].read_text()
    assert NATIVE in (ROOT / "docs" / "performance.svg").read_text()


def test_results_describe_the_machine_by_cores_and_memory_alone() -> None:
    assert set(RESULTS["machine"]) == {"cores", "memory_gib"}
    assert set(RESULTS["sections"]) == {*ON_STAND, *ALONE}
