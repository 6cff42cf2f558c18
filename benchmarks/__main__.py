"""The bridge against direct Triton, on one machine in one run: python -m benchmarks [--rounds N] [--seconds S]

One Triton serves all: its gRPC and HTTP ports are called directly, through the bridge, and with a model that only
answers its input, as the floor. Rounds interleave the paths, since machines drift. Before each measurement one answer
is checked by value and by status, and after it that the answers had that answer's size.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from benchmarks.calls import Array, Call, Places, WrongAnswer, grpc_calls, rest_calls
from benchmarks.h2load import Load, LoadFailed
from benchmarks.results import Measurement, as_json, as_markdown, fill, machine
from examples.server import Server, serving

HERE = Path(__file__).parent
MODEL = "half_plus_two"
MODELS = HERE.parent / "examples" / "models"
IDENTITY = "bench_identity"
SIZE_TOLERANCE = 0.01
CALIBRATION_REQUESTS = 40

SMALL = {"4 floats": np.array([1, 2, 5, -4], np.float32)}
LARGE = {"4 MB": np.arange(1 << 20, dtype=np.float32)}
LONG = {"10000 floats": np.arange(10_000, dtype=np.float32)}
IN_FLIGHT = (1, 8)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the bridge against direct Triton.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement, about")
    parser.add_argument("--output", type=Path, default=HERE / "results.json")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "performance.md", help="filled with them")
    arguments = parser.parse_args()
    try:
        results = bench(arguments.rounds, arguments.seconds)
    except (LoadFailed, WrongAnswer, RuntimeError, OSError, grpc.RpcError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return 1
    arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    arguments.page.write_text(fill(arguments.page.read_text(), results))
    print(as_markdown(results))
    return 0


def bench(rounds: int, seconds: float) -> dict[str, Any]:
    before = machine()
    with tempfile.TemporaryDirectory(prefix="bridge-bench-") as directory:
        scratch = Path(directory)
        flags = [f"--model_name={MODEL}", f"--model_base_path={MODELS / MODEL}", "--log_level=warning"]
        with serving(scratch / "state", flags) as server:
            places = find(server, scratch / "state" / "repository")
            measurements = [
                measurement
                for protocol, calls, payload in situations(places)
                for in_flight in IN_FLIGHT
                for measurement in compare(protocol, payload, calls, in_flight, rounds, seconds, scratch)
            ]
            return as_json(measurements, before, versions(places))


def situations(places: Places) -> list[tuple[str, list[Call], str]]:
    """Protocol, calls and payload; JSON of 4 MB tensors would measure the JSON alone."""
    faces: Sequence[tuple[str, Callable[[Places, Array], list[Call]], dict[str, Array]]] = (
        ("gRPC", grpc_calls, SMALL | LARGE),
        ("REST", rest_calls, SMALL | LONG),
    )
    return [(face, calls(places, x), payload) for face, calls, payloads in faces for payload, x in payloads.items()]


def compare(
    protocol: str, payload: str, calls: Sequence[Call], in_flight: int, rounds: int, seconds: float, scratch: Path
) -> list[Measurement]:
    """Each call in each round. How many requests a measurement takes is found by a first, uncounted one."""
    counts = [calibrate(call, in_flight, seconds, scratch) for call in calls]
    loads: list[list[Load]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, count, found in zip(calls, counts, loads, strict=True):
            found.append(measure(call, count, in_flight, scratch))
    print(f"measured {protocol}, {payload}, {in_flight} in flight", file=sys.stderr, flush=True)
    return [
        Measurement(protocol, payload, in_flight, call.path, found) for call, found in zip(calls, loads, strict=True)
    ]


def calibrate(call: Call, in_flight: int, seconds: float, scratch: Path) -> int:
    rate = measure(call, CALIBRATION_REQUESTS, in_flight, scratch).requests_per_second
    return max(in_flight * 4, int(rate * seconds))


def measure(call: Call, requests: int, in_flight: int, scratch: Path) -> Load:
    size = call.verify()
    load = call.load(requests, in_flight, scratch)
    if abs(load.body_bytes - size) > SIZE_TOLERANCE * size:
        raise WrongAnswer(f"{call.path}: answers of {load.body_bytes:.0f} bytes instead of {size}")
    return load


def find(server: Server, repository: Path) -> Places:
    """Ask the bridge where its Triton is, and load the bare model there."""
    with urllib.request.urlopen(f"http://{server.admin}/api/v1/instances", timeout=10) as response:
        (instance,) = json.load(response)["instances"]
    (triton_model,) = instance["copies"]
    shutil.copytree(HERE / "identity", repository / IDENTITY)
    with grpc.insecure_channel(instance["grpc"]) as channel:
        load: Any = channel.unary_unary("/inference.GRPCInferenceService/RepositoryModelLoad")
        load(service_pb2.RepositoryModelLoadRequest(model_name=IDENTITY).SerializeToString(), timeout=60)
    return Places(server.grpc, server.rest, instance["grpc"], instance["http"], MODEL, triton_model, IDENTITY)


def versions(places: Places) -> dict[str, str]:
    with urllib.request.urlopen(f"http://{places.triton_http}/v2", timeout=10) as response:
        triton = json.load(response)["version"]
    names = ("triton-bridge", "tensorflow", "grpcio", "numpy")
    return {"triton": triton, **{name: version(name) for name in names}}


if __name__ == "__main__":
    sys.exit(main())
