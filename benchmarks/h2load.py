"""Runs nghttp2's load generator, which is written in C and not the bottleneck, and reads what it found."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PROGRAM = "h2load"


class LoadFailed(Exception):
    """h2load is missing, a request failed, or its report cannot be read."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run found. `p50_us` is its median request, `body_bytes` the mean size of an answer's body."""

    requests: int
    p50_us: float
    requests_per_second: float
    body_bytes: float


def run(
    url: str, body: Path, headers: Mapping[str, str], *, requests: int, in_flight: int, http1: bool = False
) -> Load:
    """Post `body` `requests` times over `in_flight` connections, one request at a time on each.

    Raises LoadFailed unless every request succeeded at the level of HTTP.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise LoadFailed(f"{PROGRAM} is missing: install Debian's nghttp2-client")
    command = [program, f"--requests={requests}", f"--clients={in_flight}", "--max-concurrent-streams=1"]
    command += [f"--data={body}", *(["--h1"] if http1 else [])]
    command += [f"--header={name}: {value}" for name, value in headers.items()]
    with tempfile.NamedTemporaryFile(prefix="h2load-") as log:
        result = subprocess.run([*command, f"--log-file={log.name}", url], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise LoadFailed(f"{PROGRAM} ended with {result.returncode}: {result.stderr or result.stdout}")
        return parse(result.stdout, Path(log.name).read_text())


def parse(report: str, log: str) -> Load:
    """The figures of h2load's report and of its log, where each line is a request's start, status and microseconds."""
    total, succeeded = _numbers(r"requests: (\d+) total, .* (\d+) succeeded", report)
    if succeeded != total:
        raise LoadFailed(f"{int(total - succeeded)} of {int(total)} requests failed")
    (rate,) = _numbers(r"finished in .*?, ([\d.]+) req/s", report)
    (body,) = _numbers(r"traffic: .* \((\d+)\) data", report)
    return Load(int(total), median(float(line.split()[2]) for line in log.splitlines()), rate, body / total)


def _numbers(pattern: str, report: str) -> tuple[float, ...]:
    found = re.search(pattern, report)
    if found is None:
        raise LoadFailed(f"the report of {PROGRAM} has no '{pattern}':\n{report}")
    return tuple(float(group) for group in found.groups())
