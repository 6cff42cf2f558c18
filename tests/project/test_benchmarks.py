"""The benchmark's reading of h2load, its arithmetic, and the page that it fills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.h2load import Load, LoadFailed, parse
from benchmarks.results import Measurement, fill, rows

ROOT = Path(__file__).resolve().parents[2]
REPORT = """
finished in 1.02s, 3305.36 req/s, 551.00KB/s
requests: 1000 total, 1000 started, 1000 done, {succeeded} succeeded, {failed} failed, 0 errored, 0 timeout
status codes: {succeeded} 2xx, 0 3xx, 0 4xx, {failed} 5xx
traffic: 165.05KB (169011) total, 60.55KB (62000) headers (space savings 76.60%), 74.22KB (76000) data
                     min         max         mean         sd        +/- sd
time for request:      180us    {longest}       {mean}       116us    93.50%
"""


@pytest.mark.parametrize(
    ("mean", "microseconds"), [("296us", 296.0), ("1.94ms", 1940.0), ("1.20s", 1_200_000.0)], ids=["us", "ms", "s"]
)
def test_report_is_read(mean: str, microseconds: float) -> None:
    report = REPORT.format(succeeded=1000, failed=0, longest="2.48ms", mean=mean)
    assert parse(report) == Load(1000, pytest.approx(microseconds), 3305.36, 76.0)


def test_failed_requests_fail_the_benchmark() -> None:
    with pytest.raises(LoadFailed, match="3 of 1000 requests failed"):
        parse(REPORT.format(succeeded=997, failed=3, longest="1ms", mean="1ms"))


def test_report_without_figures_is_refused() -> None:
    with pytest.raises(LoadFailed, match="has no"):
        parse("h2load: connection refused")


def test_ratios_compare_within_a_round() -> None:
    """The machine was twice as slow in the second round, and three times in the third."""
    drift = (1, 2, 3)
    direct = [Load(10, 100.0 * slow, 1000.0 / slow, 1.0) for slow in drift]
    bridge = [Load(10, 150.0 * slow, 800.0 / slow, 1.0) for slow in drift]
    found = list(rows([Measurement("gRPC", "x", 1, "Triton", direct), Measurement("gRPC", "x", 1, "bridge", bridge)]))
    assert [(row.latency_ratio, row.rate_ratio) for row in found] == [(1.0, 1.0), (1.5, pytest.approx(0.8))]


def test_page_shows_the_committed_results() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    assert fill(page, results) == page


def test_results_describe_the_machine_by_cores_and_memory_alone() -> None:
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    assert set(results["machine"]) == {"cores", "memory_gib", "load_average_before"}
    assert {(row["protocol"], row["payload"], row["in_flight"]) for row in results["rows"]} >= {
        ("gRPC", payload, in_flight) for payload in ("4 floats", "4 MB") for in_flight in (1, 8)
    }
