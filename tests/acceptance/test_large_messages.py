"""Messages of a hundred megabytes through every port, and what they leave behind in memory."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from model_repo_sync.protos.tensorflow_serving.predict_pb2 import PredictRequest, PredictResponse
from tests.support import savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.official_client import OfficialClient

pytestmark = pytest.mark.integration

PREDICT = "/tensorflow.serving.PredictionService/Predict"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
MUCH = 25_000_000
"""Floats of 100 MB."""
INPUT = 7_500_000
"""Floats of 30 MB."""
DT_FLOAT, DT_INT32 = 1, 3

Send = Callable[[], None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BridgeServer]:
    savedmodels.make("large", tmp_path / "large" / "1")
    flags = ("--model_name=large", f"--model_base_path={tmp_path}/large")
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        yield server


def grpc_output(server: BridgeServer, count: int) -> Send:
    """Asks for `count` floats over gRPC."""
    request = PredictRequest(model_spec={"name": "large", "signature_name": "much"})
    request.inputs["count"].dtype = DT_INT32
    request.inputs["count"].tensor_shape.SetInParent()
    request.inputs["count"].int_val.append(count)

    def send() -> None:
        with grpc.insecure_channel(server.grpc, options=UNLIMITED) as channel:
            response = channel.unary_unary(PREDICT)(request.SerializeToString())
        values = PredictResponse.FromString(response).outputs["y"].float_val
        np.testing.assert_allclose(values[:1000], np.sin(np.arange(1000)), rtol=1e-4)
        assert len(values) == count

    return send


def grpc_input(server: BridgeServer, count: int) -> Send:
    """Sends `count` floats over gRPC."""
    request = PredictRequest(model_spec={"name": "large"})
    request.inputs["x"].dtype = DT_FLOAT
    request.inputs["x"].tensor_shape.dim.add(size=count)
    request.inputs["x"].tensor_content = np.ones(count, np.float32).tobytes()
    data = request.SerializeToString()

    def send() -> None:
        with grpc.insecure_channel(server.grpc, options=UNLIMITED) as channel:
            response = channel.unary_unary(PREDICT)(data)
        assert list(PredictResponse.FromString(response).outputs["sum"].float_val) == [count]

    return send


def rest_output(server: BridgeServer, count: int) -> Send:
    """Asks for `count` floats over REST."""
    body = json.dumps({"signature_name": "much", "inputs": count})

    def send() -> None:
        reply = server.request("POST", "/v1/models/large:predict", body)
        assert reply.status == 200
        assert reply.body.startswith(b'{\n    "outputs": [\n        0.0,\n        0.84147')
        assert reply.body.endswith(b"\n    ]\n}")
        assert reply.body.count(b",") == count - 1

    return send


def rest_input(server: BridgeServer, count: int) -> Send:
    """Sends `count` floats over REST."""
    body = b'{"instances": [' + b",".join([b"1.0"] * count) + b"]}"

    def send() -> None:
        reply = server.request("POST", "/v1/models/large:predict", body)
        assert (reply.status, reply.json) == (200, {"predictions": [float(count)]})

    return send


KINDS: dict[str, tuple[Callable[[BridgeServer, int], Send], int]] = {
    "gRPC output": (grpc_output, MUCH),
    "gRPC input": (grpc_input, INPUT),
    "REST output": (rest_output, MUCH),
    "REST input": (rest_input, 1_000_000),
}


@pytest.mark.timeout(300)
def test_large_messages_pass(server: BridgeServer) -> None:
    for make, count in KINDS.values():
        make(server, count)()


def test_the_official_client_gets_large_outputs(server: BridgeServer, client: OfficialClient) -> None:
    inputs = {"x": {"dtype": "float32", "values": [1.0] * 1_000_000}}
    for compression in ("gzip", "deflate", None):
        answer = client.ask(server.grpc, "predict", spec={"name": "large"}, inputs=inputs, compression=compression)
        assert answer["outputs"]["sum"]["values"] == [1_000_000]


@pytest.mark.timeout(300)
def test_small_requests_go_on_beside_large_ones(server: BridgeServer) -> None:
    """Large bodies are read and written without the event loop and, for the most part, without Python's lock."""
    large = [rest_output(server, MUCH // 5), rest_input(server, 5_000_000)]
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            for send in large:
                send()

    thread = threading.Thread(target=ask)
    thread.start()
    seconds = []
    connection = http.client.HTTPConnection(server.rest, timeout=60)
    try:
        until = time.monotonic() + 8
        while time.monotonic() < until:
            started = time.monotonic()
            connection.request("GET", "/v1/models/large")
            assert connection.getresponse().read().startswith(b"{")
            seconds.append(time.monotonic() - started)
    finally:
        stop.set()
        thread.join()
        connection.close()
    assert statistics.median(seconds) < 0.1
    assert max(seconds) < 2, sorted(seconds)[-5:]


def settled_memory(server: BridgeServer) -> int:
    """The memory of all processes in kB, once it has not changed for a second."""
    deadline, last, since = time.monotonic() + 30, 0, time.monotonic()
    while True:
        now = sum(process.status("VmRSS") for process in server.processes())
        if abs(now - last) > 1024:
            last, since = now, time.monotonic()
        if time.monotonic() - since > 2:
            return now
        assert time.monotonic() < deadline, "the memory does not settle"
        time.sleep(0.1)


def check_memory(server: BridgeServer, send: Send, early: int, late: int) -> None:
    """Memory after request `late` is within 5 % of that after request `early`."""
    for _ in range(early):
        send()
    before = settled_memory(server)
    for _ in range(late - early):
        send()
    after = settled_memory(server)
    assert after < 1.05 * before, f"{before} kB after {early} requests, {after} kB after {late}"


@pytest.mark.parametrize("kind", ["gRPC output", "gRPC input"])
@pytest.mark.timeout(300)
def test_memory_stays(server: BridgeServer, kind: str) -> None:
    make, count = KINDS[kind]
    check_memory(server, make(server, count), 5, 12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(1800)
def test_memory_stays_over_fifty_requests(server: BridgeServer, kind: str) -> None:
    make, count = KINDS[kind]
    check_memory(server, make(server, INPUT if kind == "REST input" else count), 10, 50)
