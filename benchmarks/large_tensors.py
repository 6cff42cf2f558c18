"""Large tensors through the bridge against direct Triton: python -m benchmarks.large_tensors [--rounds N]

The bridge runs its own Triton, once with shared memory between them and once without. Each is compared with direct gRPC
calls of that Triton in interleaved rounds, since machines drift, and the processor time of the servers is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.calls import Call, infer_call, predict_call
from benchmarks.memory_per_model import family, pss
from benchmarks.payloads import HALF_PLUS_TWO, sized
from examples.server import Server, serving

MODEL = Path(__file__).parent.parent / "examples" / "models" / HALF_PLUS_TWO
MODES: Mapping[str, tuple[str, ...]] = {"shared memory": (), "without": ("--triton_shared_memory_bytes=0",)}
MEGABYTES = (4, 64)
ROUNDS = 7
BYTES_IN_A_ROUND = 256 << 20
FEWEST_IN_A_ROUND = 12
"""The median of four requests of 64 MB varied by a factor of three."""
BURST = 1000
SETTLE_SECONDS = 4.0
"""After which the bridge gave back what it had for large tensors."""


def large_tensors(
    scratch: Path, *, megabytes: Sequence[int] = MEGABYTES, rounds: int = ROUNDS, burst: int = BURST
) -> dict[str, Any]:
    """By mode and size: the median of the rounds' latency ratios, and milliseconds of processor time per request.

    Memory is that before and after `burst` requests of 4 MB.
    """
    found: dict[str, Any] = {}
    for number, (mode, flags) in enumerate(MODES.items()):
        arguments = [f"--model_name={HALF_PLUS_TWO}", f"--model_base_path={MODEL}", "--log_level=warning", *flags]
        with serving(scratch / f"state{number}", arguments) as server:
            found[mode] = {f"{size} MB": _compare(server, size << 20, rounds, scratch) for size in megabytes}
            found[mode]["memory_mb"] = _memory(server, scratch, burst)
    return {"load_average": round(os.getloadavg()[0], 1), "rounds": rounds, **found}


def _compare(server: Server, size: int, rounds: int, scratch: Path) -> dict[str, Any]:
    calls = _calls(server, size)
    requests = max(FEWEST_IN_A_ROUND, BYTES_IN_A_ROUND // size)
    for call in calls:
        call.verify()
        call.load(3, 1, scratch)
    samples: dict[str, list[float]] = {call.path: [] for call in calls}
    spent: dict[str, list[Counter[str]]] = {call.path: [] for call in calls}
    for _ in range(rounds):
        for call in calls:
            before = _processor_ms(server.process.pid)
            samples[call.path].append(call.load(requests, 1, scratch).p50_us)
            spent[call.path].append(_processor_ms(server.process.pid) - before)
    direct, bridge = samples.values()
    ratios = [ours / theirs for ours, theirs in zip(bridge, direct, strict=True)]
    return {
        "p50_us": {path: round(median(values)) for path, values in samples.items()},
        "p50_ratio": round(median(ratios), 3),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "processor_ms": {path: _per_request(values, requests) for path, values in spent.items()},
    }


def _calls(server: Server, size: int) -> list[Call]:
    """Direct Triton first."""
    with urllib.request.urlopen(f"http://{server.admin}/api/v1/instances", timeout=10) as response:
        (instance,) = json.load(response)["instances"]
    (triton_model,) = instance["copies"]
    payload = sized(size)
    direct = infer_call("Triton", instance["grpc"], triton_model, payload)
    return [direct, predict_call("bridge", server.grpc, payload)]


def _memory(server: Server, scratch: Path, requests: int) -> dict[str, float]:
    """Of all the server's processes before and after many requests of 4 MB."""
    call = _calls(server, 4 << 20)[-1]
    call.load(requests // 5, 1, scratch)
    found = {}
    for moment in ("before", "after"):
        time.sleep(SETTLE_SECONDS)
        found[moment] = round(pss(server.process.pid) / 1e6, 1)
        if moment == "before":
            call.load(requests, 1, scratch)
    return found


def _per_request(rounds: Sequence[Counter[str]], requests: int) -> dict[str, float]:
    names = sorted(set().union(*rounds))
    return {name: round(median(spent[name] for spent in rounds) / requests, 2) for name in names}


def _processor_ms(process: int) -> Counter[str]:
    """Milliseconds of a process and all below it by the programs' names."""
    spent: Counter[str] = Counter()
    for pid in family(process):
        tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        spent[name] += round(sum(int(task.read_text().split()[0]) for task in tasks) / 1e6)
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures large tensors through the bridge against direct Triton.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--megabytes", type=int, nargs="+", default=MEGABYTES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bridge-bench-") as scratch:
        found = large_tensors(Path(scratch), megabytes=arguments.megabytes, rounds=arguments.rounds)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
