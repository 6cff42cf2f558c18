"""What a stream of changes with their events costs inference: `python -m benchmarks.changes [RATE]`.

A bridge serves on a real Triton and PostgreSQL. Another process makes RATE changes a second (200) by the same database,
now and not now, in turn; the medians of requests one at a time are compared.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import grpc

from bridge.registry import Actor, ModelSpec, Owner, Registry
from model_repo_sync.protos.tensorflow import types_pb2
from model_repo_sync.protos.tensorflow_serving import predict_pb2
from tests.support import savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.postgres import postgres_server
from tests.support.tritonserver import TritonServer, backend_directory

WINDOWS = 8
WINDOW_SECONDS = 3.0
RATE = 200
MODEL = "changed"


def main() -> None:
    """Measure and print; or, as the child, change until SIGTERM and print how often."""
    if sys.argv[1:2] == ["--change"]:
        print(change(sys.argv[2], float(sys.argv[3])))
        return
    rate = float(sys.argv[1]) if len(sys.argv) > 1 else RATE
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(postgres_server()).create_database()
        repository, model = directory / "repository", directory / "half"
        triton = stack.enter_context(TritonServer.start(backend_directory(directory / "backends"), repository))
        savedmodels.half_plus_two(model, 1)
        flags = [f"--database_url={url}", "--migrate", "--model_name=half", f"--model_base_path={model}"]
        flags += [f"--triton_url=127.0.0.1:{triton.grpc_port}", f"--triton_http_url=127.0.0.1:{triton.http_port}"]
        server = BridgeServer(directory / "bridge", *flags, f"--triton_repository={repository}")
        stack.enter_context(server)
        report(server.grpc, url, rate)


def report(address: str, url: str, rate: float) -> None:
    """Print the medians with and without changes."""
    found: dict[bool, list[float]] = {False: [], True: []}
    made = 0.0
    with grpc.insecure_channel(address) as channel:
        ask(channel, 1.0)
        for window in range(2 * WINDOWS):
            changing = window % 2 == 1
            changer = start_changes(url, rate) if changing else None
            found[changing].append(statistics.median(ask(channel, WINDOW_SECONDS)))
            if changer is not None:
                changer.send_signal(signal.SIGTERM)
                made += float(changer.communicate()[0])
    quiet, busy = (statistics.median(found[changing]) * 1e6 for changing in (False, True))
    print(f"p50 without changes {quiet:.0f} us, with {made / WINDOWS:.0f} changes a second {busy:.0f} us")
    print(f"ratio {busy / quiet:.3f}")


def start_changes(url: str, rate: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.changes", "--change", url, str(rate)]
    changer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert changer.stdout is not None
    changer.stdout.readline()
    return changer


def ask(channel: grpc.Channel, seconds: float) -> list[float]:
    """The times of requests, one after the other, for so many seconds."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        "/tensorflow.serving.PredictionService/Predict"
    )
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "half"
    tensor = request.inputs["x"]
    tensor.dtype = types_pb2.DT_FLOAT
    tensor.tensor_shape.dim.add(size=3)
    tensor.float_val.extend((1.0, 2.0, 5.0))
    body, times, end = request.SerializeToString(), [], time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        call(body)
        times.append(time.monotonic() - began)
    return times


def change(url: str, rate: float) -> float:
    """Make `rate` changes a second until SIGTERM; how many there were in a second."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    registry, actor = Registry.open(url, origin="benchmark"), Actor("benchmark", "CLI")
    registry.put_model(ModelSpec(MODEL, "/nowhere"), Owner.ADMIN, actor)
    number, offset = 0, int(time.time())
    print("changing", flush=True)
    began = time.monotonic()
    while not stopped:
        registry.set_policy(MODEL, {"specific": {"versions": [offset + number]}}, actor)
        number += 1
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
    return number / (time.monotonic() - began)


if __name__ == "__main__":
    main()
