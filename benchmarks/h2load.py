"""Runs nghttp2's load generator, which is written in C and not the bottleneck, and reads what it found."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PROGRAM = "h2load"
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


class LoadFailed(Exception):
    """h2load is missing, a request failed, or its report cannot be read."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run found. `body_bytes` is the mean size of an answer's body."""

    requests: int
    latency_us: float
    requests_per_second: float
    body_bytes: float


def run(
    url: str,
    body: Path,
    headers: Mapping[str, str],
    *,
    requests: int,
    in_flight: int,
    http1: bool = False,
    log: Path | None = None,
) -> Load:
    """Post `body` `requests` times over `in_flight` connections, one request at a time on each.

    `log` gets a line per request, for `median_latency_us`.

    Raises LoadFailed unless every request succeeded at the level of HTTP.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise LoadFailed(f"{PROGRAM} is missing: install Debian's nghttp2-client")
    command = [program, f"--requests={requests}", f"--clients={in_flight}", "--max-concurrent-streams=1"]
    command += [f"--data={body}", *(["--h1"] if http1 else [])]
    command += [f"--log-file={log}"] if log else []
    command += [f"--header={name}: {value}" for name, value in headers.items()]
    result = subprocess.run([*command, url], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise LoadFailed(f"{PROGRAM} ended with {result.returncode}: {result.stderr or result.stdout}")
    return parse(result.stdout)


def parse(report: str) -> Load:
    """The figures of h2load's report."""
    total, succeeded = _numbers(r"requests: (\d+) total, .* (\d+) succeeded", report)
    if succeeded != total:
        raise LoadFailed(f"{int(total - succeeded)} of {int(total)} requests failed")
    (rate,) = _numbers(r"finished in .*?, ([\d.]+) req/s", report)
    (body,) = _numbers(r"traffic: .* \((\d+)\) data", report)
    return Load(int(total), _mean_latency(report), rate, body / total)


def _mean_latency(report: str) -> float:
    """Microseconds; the third column of the row of request times, after the least and the greatest."""
    found = re.search(r"time for request:\s+\S+\s+\S+\s+([\d.]+)(us|ms|s)\b", report)
    if found is None:
        raise LoadFailed(f"no request times in the report of {PROGRAM}:\n{report}")
    return float(found[1]) * UNITS[found[2]]


def median_latency_us(log: Path) -> float:
    """The median of a run's requests: each line ends in the status and the microseconds of one."""
    return median(float(line.split()[2]) for line in log.read_text().splitlines())


def _numbers(pattern: str, report: str) -> tuple[float, ...]:
    found = re.search(pattern, report)
    if found is None:
        raise LoadFailed(f"the report of {PROGRAM} has no '{pattern}':\n{report}")
    return tuple(float(group) for group in found.groups())
