"""The serving process: what it is made of, how it ends, and what keeps it from starting."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from model_repo_sync.protos.tensorflow_serving import predict_pb2
from tests.acceptance.conftest import Start
from tests.support import savedmodels
from tests.support.bridge_server import BridgeServer, HttpAnswer
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

RSS_KB = 120_000
PREDICT = "/tensorflow.serving.PredictionService/Predict"


def test_the_serving_process_is_small_and_has_no_tensorflow(start: Start, tmp_path: Path) -> None:
    export(tmp_path / "numbered", 1)
    server = start()
    assert server.process.status("VmRSS") < RSS_KB
    mapped = server.process.maps()
    assert "libtensorflow" not in mapped
    assert "/tensorflow/" not in mapped
    [stub] = server.stubs
    assert "libtensorflow" in stub.maps(), "the runner is where TensorFlow lives"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """The base path of a model that takes as long as a request says."""
    return savedmodels.make("slow", tmp_path / "slow" / "1").parent


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def rest_call(server: BridgeServer, threads: ThreadPoolExecutor, rounds: int) -> Future[HttpAnswer]:
    body = json.dumps({"inputs": {"x": [1.0], "rounds": rounds}})
    return threads.submit(server.request, "POST", "/v1/models/slow:predict", body)


def grpc_call(channel: grpc.Channel, rounds: int) -> grpc.Future[bytes]:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "slow"
    request.inputs["x"].dtype, request.inputs["rounds"].dtype = 1, 3
    request.inputs["x"].float_val.append(1.0)
    request.inputs["x"].tensor_shape.dim.add(size=1)
    request.inputs["rounds"].int_val.append(rounds)
    return channel.unary_unary(PREDICT).future(request.SerializeToString(), timeout=60)


def test_sigterm_lets_requests_in_flight_finish(start: Start, slow: Path, threads: ThreadPoolExecutor) -> None:
    server = start("--model_name=slow", f"--model_base_path={slow}")
    everything = server.processes()
    with grpc.insecure_channel(server.grpc) as channel:
        calls = [grpc_call(channel, 10), rest_call(server, threads, 10)]
        _wait_until_computing(server)
        server.signal(signal.SIGTERM)
        _wait_until_refusing(server)
        assert not any(call.done() for call in calls)
        response = predict_pb2.PredictResponse.FromString(calls[0].result())
        assert list(response.outputs["y"].float_val) == [2.0]
        assert calls[1].result().json == {"outputs": [2.0]}
    assert server.wait() == 0
    assert not [process for process in everything if process.alive]
    assert not server.shared_memory()
    assert not (server.state_dir / "server.json").exists()


def test_a_request_that_takes_too_long_does_not_hold_up_the_end(
    start: Start, slow: Path, threads: ThreadPoolExecutor
) -> None:
    server = start("--model_name=slow", f"--model_base_path={slow}", "--drain_seconds=1")
    everything = server.processes()
    with grpc.insecure_channel(server.grpc) as channel:
        call = grpc_call(channel, 100_000)
        _wait_until_computing(server)
        assert server.terminate() == 0
        assert call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    assert not [process for process in everything if process.alive]


def test_a_second_signal_ends_at_once(start: Start, slow: Path) -> None:
    server = start("--model_name=slow", f"--model_base_path={slow}")
    everything = server.processes()
    with grpc.insecure_channel(server.grpc) as channel:
        call = grpc_call(channel, 100_000)
        _wait_until_computing(server)
        server.signal(signal.SIGTERM)
        server.wait_for_log("SIGTERM: draining")
        server.signal(signal.SIGTERM)
        assert server.wait(2) != 0
        assert call.code() is grpc.StatusCode.UNAVAILABLE
    wait_for(lambda: not [process for process in everything if process.alive], 10, "no process is left")


def test_sigint_ends_in_order_too(start: Start, tmp_path: Path) -> None:
    export(tmp_path / "numbered", 1)
    server = start()
    server.signal(signal.SIGINT)
    assert server.wait() == 0
    assert not server.processes()


def test_a_signal_during_the_start_ends_it(start: Start, tmp_path: Path) -> None:
    export(tmp_path / "numbered", 1)
    server = start(ready=False)
    server.wait_for_log("Started tritonserver")
    assert server.terminate() == 0
    assert not server.processes()


@pytest.mark.parametrize("flag", ["port", "rest_api_port", "admin_port", "modelmesh_port"])
def test_a_busy_port_is_one_sentence(start: Start, tmp_path: Path, flag: str) -> None:
    export(tmp_path / "numbered", 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = start(f"--{flag}={port}", ready=False)
        assert server.wait() == 1
    [sentence] = server.log_lines("bridge serve:")
    assert f":{port} cannot be bound" in sentence
    assert not server.log_lines("Traceback")
    assert not server.processes()


def test_two_servers_do_not_share_the_grpc_port(start: Start, tmp_path: Path) -> None:
    """gRPC's own default would let both listen and hand each some of the connections."""
    export(tmp_path / "numbered", 1)
    first = start()
    second = start(f"--port={first.ports['port']}", name="second", ready=False)
    assert second.wait() == 1
    [sentence] = second.log_lines("bridge serve:")
    assert f":{first.ports['port']} cannot be bound" in sentence


def test_a_state_directory_in_use_is_one_sentence(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    first = start()
    second = start(f"--state_dir={first.state_dir}", name="second", ready=False)
    assert second.wait() == 1
    [sentence] = second.log.read_text().splitlines()
    assert f"State directory '{first.state_dir}' is in use by process {first.process.pid};" in sentence
    assert client.predict(first.grpc, [1.0], name="numbered")["outputs"]["y"]["values"] == [1.5]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--modelmesh_port=0",), "nothing to serve: give --model_base_path or --model_config_file"),
        (("--model_base_path=relative/path",), "got base_path()=relative/path"),
        (("--model_config_file=/no/such/file",), "/no/such/file; No such file or directory"),
        (("--device=tpu",), "--device=tpu"),
        (("--database_url=mysql://localhost/x",), "neither a SQLite file nor PostgreSQL"),
    ],
)
def test_settings_that_cannot_work_are_one_sentence(tmp_path: Path, flags: tuple[str, ...], sentence: str) -> None:
    server = BridgeServer(tmp_path, *flags).launch()
    try:
        assert server.wait() == 1
        [line] = server.log_lines("bridge serve:")
        assert sentence in line
        assert not server.log_lines("Traceback")
    finally:
        server.close()


def _wait_until_computing(server: BridgeServer) -> None:
    [stub] = server.stubs
    before = stub.cpu_seconds
    wait_for(lambda: stub.cpu_seconds > before + 0.3, 20, "the model computes")


def _wait_until_refusing(server: BridgeServer) -> None:
    """Wait until the REST port takes no more connections."""

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", server.ports["rest_api_port"]), 1).close()
        except OSError:
            return True
        return False

    wait_for(refused, 10, "the port is closed")
