"""The runner against a model that only answers its input: python -m benchmarks.runner_speed [--rounds N]

Both are served by one Triton and called directly over gRPC, in interleaved rounds, since machines drift.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.bare_triton import BareTriton, bare_triton
from benchmarks.calls import FRAME, GrpcCall, identity_call, infer_call
from benchmarks.h2load import run
from benchmarks.payloads import SMALL
from model_repo_sync.triton_config import PROCESSES, RunnerOptions

MODEL = Path(__file__).parent.parent / "examples" / "models" / "half_plus_two" / "00000123"
ROUNDS = 7
REQUESTS = 2000
WARM_UP = 300
GRPC_HEADERS = {"content-type": "application/grpc", "te": "trailers"}
IDENTITY = "identity"


class Sample(NamedTuple):
    """One path in one round: microseconds of one client's median request, requests per second of eight."""

    p50_us: float
    rate: float


def runner_speed(
    scratch: Path, runners: Mapping[str, RunnerOptions], *, rounds: int = ROUNDS, requests: int = REQUESTS
) -> dict[str, Any]:
    """Compare a small SavedModel under each of `runners` with the bare model; needs the main thread.

    Each ratio is the median over rounds, each against the bare model of its own round.
    """
    with bare_triton(scratch / "state") as triton:
        calls = _calls(triton, runners)
        for call in calls.values():
            call.verify()
            _sample(call, WARM_UP, scratch)
        found: dict[str, list[Sample]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                found[name].append(_sample(call, requests, scratch))
    return {
        "load_average": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "paths": {name: _summary(samples, found[IDENTITY]) for name, samples in found.items()},
    }


def _calls(triton: BareTriton, runners: Mapping[str, RunnerOptions]) -> dict[str, GrpcCall]:
    calls = {IDENTITY: identity_call(IDENTITY, triton.grpc, triton.add_identity(), SMALL)}
    for number, (name, options) in enumerate(runners.items()):
        model = f"half_plus_two.{number}"
        triton.add(model, MODEL, options)
        calls[name] = infer_call(name, triton.grpc, model, SMALL)
    return calls


def _sample(call: GrpcCall, requests: int, scratch: Path) -> Sample:
    body = scratch / "body"
    body.write_bytes(FRAME.pack(0, len(call.body)) + call.body)
    url = f"http://{call.address}{call.target}"
    p50 = run(url, body, GRPC_HEADERS, requests=requests, in_flight=1).p50_us
    return Sample(p50, run(url, body, GRPC_HEADERS, requests=2 * requests, in_flight=8).requests_per_second)


def _summary(samples: list[Sample], identity: list[Sample]) -> dict[str, float]:
    pairs = list(zip(samples, identity, strict=True))
    return {
        "p50_us": round(median(sample.p50_us for sample in samples), 1),
        "p50_ratio": round(median(sample.p50_us / bare.p50_us for sample, bare in pairs), 2),
        "requests_per_second": round(median(sample.rate for sample in samples)),
        "rate_ratio": round(median(sample.rate / bare.rate for sample, bare in pairs), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the runner against a bare model of Triton.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of each measurement")
    arguments = parser.parse_args()
    runners = {processes: RunnerOptions(processes=processes) for processes in PROCESSES}
    with tempfile.TemporaryDirectory(prefix="bridge-bench-") as scratch:
        found = runner_speed(Path(scratch), runners, rounds=arguments.rounds, requests=arguments.requests)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
