"""What small models take in either mode: python -m benchmarks.memory_per_model [--models N] [--rounds N]

Memory is the proportional set size of Triton and every process below it, where each page counts once however many
processes share it, and of their shared memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bare_triton import BareTriton, bare_triton
from benchmarks.calls import infer_call
from benchmarks.payloads import SMALL
from benchmarks.runner_speed import MODEL
from model_repo_sync.triton_config import PROCESSES, RunnerOptions

MODELS = 10
ROUNDS = 5
PAUSE_SECONDS = 2.0
"""After which runners gave back what their first requests took."""

PROCESS_FILES = Path("/proc")


def memory_per_model(scratch: Path, processes: str, *, models: int = MODELS) -> dict[str, Any]:
    """Load `models` copies of a small SavedModel one by one, call each, and measure; needs the main thread.

    `pss_mb` is that of all processes, `server_pss_mb` Triton's own before the first model.
    """
    with bare_triton(scratch / "state") as triton:
        server = pss(triton.pid)
        loads = [_load(triton, f"model.{number}", processes) for number in range(models)]
        time.sleep(PAUSE_SECONDS)
        total = pss(triton.pid)
    return {
        "load_average": round(os.getloadavg()[0], 1),
        "models": models,
        "pss_mb": round(total / 1e6),
        "server_pss_mb": round(server / 1e6),
        "first_load_s": round(loads[0], 2),
        "load_s": round(median(loads[1:] or loads), 2),
    }


def _load(triton: BareTriton, name: str, processes: str) -> float:
    seconds = triton.add(name, MODEL, RunnerOptions(processes=processes))
    infer_call(processes, triton.grpc, name, SMALL).verify()
    return seconds


def pss(process: int) -> int:
    """Bytes of a process and of everything below it."""
    return sum(_pss(member) for member in family(process))


def family(process: int) -> list[int]:
    """The numbers of a process, its children, theirs, and orphans of its process group."""
    parents = {}
    for path in PROCESS_FILES.glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.name)] = int(fields[1]), int(fields[2])
    found = {process}
    while more := {pid for pid, (parent, group) in parents.items() if parent in found or group == process} - found:
        found |= more
    return sorted(found)


def _pss(process: int) -> int:
    try:
        text = (PROCESS_FILES / str(process) / "smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def compare(rounds: int, models: int) -> dict[str, Any]:
    """Medians over interleaved rounds, by mode."""
    found: dict[str, list[dict[str, Any]]] = {processes: [] for processes in PROCESSES}
    for _ in range(rounds):
        for processes, results in found.items():
            with tempfile.TemporaryDirectory(prefix="bridge-bench-") as scratch:
                results.append(memory_per_model(Path(scratch), processes, models=models))
    return {processes: _medians(results) for processes, results in found.items()}


def _medians(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"rounds": len(results), **{key: round(median(one[key] for one in results), 2) for key in results[0]}}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures memory and load time of small models.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--models", type=int, default=MODELS)
    arguments = parser.parse_args()
    print(json.dumps(compare(arguments.rounds, arguments.models), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
