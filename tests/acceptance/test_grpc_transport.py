"""What gRPC carries to a real server on a real Triton: encodings, deadlines, cancellation, compression, limits."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from model_repo_sync.protos.tensorflow.tensor_pb2 import TensorProto
from model_repo_sync.protos.tensorflow_serving.predict_pb2 import PredictRequest, PredictResponse
from tests.acceptance.conftest import Start
from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.waiting import wait_for
from tests.transport.served import SERVERS

pytestmark = pytest.mark.integration

SERVICE = "/tensorflow.serving.PredictionService"
DT_FLOAT, DT_INT32, DT_STRING = 1, 3, 7

LONG = 300
"""Rounds of the slow model that take some seconds."""

Call = Callable[..., Any]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("transport")
    kinds = ("echo", "half_plus_two", "slow")
    entries = [Entry(kind, savedmodels.make(kind, directory / kind / "1").parent) for kind in kinds]
    config = model_config.write(directory / "models.config", *entries)
    with BridgeServer(
        directory / "bridge", f"--model_config_file={config}", f"--grpc_server={request.param}"
    ) as server:
        yield server


@pytest.fixture
def predict(server: BridgeServer) -> Iterator[Call]:
    """`predict(request, timeout=…)` on a channel without limits."""
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.grpc, options=options) as channel:
        yield channel.unary_unary(f"{SERVICE}/Predict")


def request(model: str, signature: str = "", **inputs: TensorProto) -> bytes:
    message = PredictRequest(model_spec={"name": model, "signature_name": signature})
    for alias, tensor in inputs.items():
        message.inputs[alias].CopyFrom(tensor)
    return message.SerializeToString()


def shape(*sizes: int) -> dict[str, Any]:
    return {"dim": [{"size": size} for size in sizes]}


ENCODINGS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "typed": (
        "float",
        {"dtype": 1, "tensor_shape": shape(2), "float_val": [1, 2]},
        {"dtype": 1, "tensor_shape": shape(2), "float_val": [1, 2]},
    ),
    "content": (
        "float",
        {"dtype": 1, "tensor_shape": shape(2), "tensor_content": b"\0\0\x80?\0\0\0@"},
        {"dtype": 1, "tensor_shape": shape(2), "float_val": [1, 2]},
    ),
    "the last value is repeated": (
        "int64",
        {"dtype": 9, "tensor_shape": shape(2, 2), "int64_val": [1, -2]},
        {"dtype": 9, "tensor_shape": shape(2, 2), "int64_val": [1, -2, -2, -2]},
    ),
    "another field's values do not count": (
        "float",
        {"dtype": 1, "tensor_shape": shape(2), "int_val": [1, 2]},
        {"dtype": 1, "tensor_shape": shape(2), "float_val": [0, 0]},
    ),
    "a missing shape is a scalar's": (
        "int32",
        {"dtype": 3, "int_val": [7]},
        {"dtype": 3, "tensor_shape": {}, "int_val": [7]},
    ),
    "no elements": (
        "double",
        {"dtype": 2, "tensor_shape": shape(0, 3)},
        {"dtype": 2, "tensor_shape": shape(0, 3)},
    ),
    "strings": (
        "string",
        {"dtype": 7, "tensor_shape": shape(3), "string_val": [b"a\0b", b"", b"\xff"]},
        {"dtype": 7, "tensor_shape": shape(3), "string_val": [b"a\0b", b"", b"\xff"]},
    ),
    "half": (
        "half",
        {"dtype": 19, "tensor_shape": shape(1), "half_val": [0x3C00]},
        {"dtype": 19, "tensor_shape": shape(1), "half_val": [0x3C00]},
    ),
    "complex128": (
        "complex128",
        {"dtype": 18, "tensor_shape": shape(1), "dcomplex_val": [1, -2]},
        {"dtype": 18, "tensor_shape": shape(1), "dcomplex_val": [1, -2]},
    ),
}


@pytest.mark.parametrize("case", ENCODINGS)
def test_encodings(predict: Call, case: str) -> None:
    signature, sent, received = ENCODINGS[case]
    response = PredictResponse.FromString(predict(request("echo", signature, x=TensorProto(**sent))))
    assert response.outputs["y"] == TensorProto(**received)
    assert response.outputs["y"].HasField("tensor_shape")


UNREADABLE = [
    {"dtype": 1, "tensor_shape": shape(2), "tensor_content": b"\0\0\x80?"},
    {"dtype": 1, "tensor_shape": shape(-1), "float_val": [1]},
    {"dtype": 0},
    {"dtype": 20},
    {"dtype": 7, "tensor_shape": shape(1), "tensor_content": b"\x05a"},
    {"dtype": 1, "tensor_shape": {"dim": [{"size": 1}] * 255}},
]


@pytest.mark.parametrize("tensor", UNREADABLE)
def test_tensors_that_cannot_be_read(predict: Call, tensor: dict[str, Any]) -> None:
    failure = failed(lambda: predict(request("echo", "float", x=TensorProto(**tensor))))
    assert failure == (grpc.StatusCode.INVALID_ARGUMENT, "tensor parsing error: x")


def failed(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def rounds(count: int) -> bytes:
    """A request to the slow model, of which a round takes some hundredths of a second."""
    return request(
        "slow",
        x=TensorProto(dtype=DT_FLOAT, tensor_shape=shape(1), float_val=[1]),
        rounds=TensorProto(dtype=DT_INT32, int_val=[count]),
    )


def test_a_deadline_ends_the_call(predict: Call) -> None:
    predict(rounds(1))
    started = time.monotonic()
    code, _ = failed(lambda: predict(rounds(LONG), timeout=0.3))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - started < 2
    predict(rounds(1), timeout=60)


def test_the_rest_deadline(start: Start, tmp_path: Path) -> None:
    savedmodels.make("slow", tmp_path / "slow" / "1")
    flags = ("--model_name=slow", f"--model_base_path={tmp_path}/slow", "--rest_api_timeout_in_ms=300")
    server = start(*flags)
    answer = server.request("POST", "/v1/models/slow:predict", '{"inputs": {"x": [1.0], "rounds": 300}}')
    assert (answer.status, answer.error) == (504, "Timed out waiting for notification")


def test_a_client_that_goes_away_cancels_the_call_to_triton(server: BridgeServer, predict: Call) -> None:
    predict(rounds(1), timeout=60)
    before, used = cancelled(server), processor_time(server)
    call = predict.future(rounds(LONG))  # type: ignore[attr-defined]
    wait_for(lambda: processor_time(server) > used + 0.1, 10, "the model runs")
    call.cancel()
    wait_for(lambda: cancelled(server) == before + 1, 5, "the call was cancelled")
    predict(rounds(1), timeout=60)


def processor_time(server: BridgeServer) -> float:
    """Seconds that the runners computed so far."""
    return sum(stub.cpu_seconds for stub in server.stubs)


def cancelled(server: BridgeServer) -> float:
    """Calls to Triton that were cancelled, as the bridge counts them."""
    page = server.request("GET", "/metrics", to=server.admin).body.decode()
    counts = re.findall(r'^bridge_triton_calls_total\{.*outcome="cancelled"\} (\S+)$', page, re.MULTILINE)
    return sum(map(float, counts))


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests(predict: Call, compression: grpc.Compression) -> None:
    tensor = TensorProto(dtype=DT_FLOAT, tensor_shape=shape(100_000), float_val=[1.5])
    data = predict(request("half_plus_two", x=tensor), compression=compression)
    assert list(PredictResponse.FromString(data).outputs["y"].float_val) == [2.75] * 100_000


def test_compressed_responses(start: Start, tmp_path: Path) -> None:
    """A channel argument of the server asks for them, as with TF Serving."""
    savedmodels.half_plus_two(tmp_path / "half", 1)
    algorithm = 2
    server = start(
        "--model_name=half",
        f"--model_base_path={tmp_path}/half",
        f"--grpc_channel_arguments=grpc.default_compression_algorithm={algorithm}",
    )
    tensor = TensorProto(dtype=DT_FLOAT, tensor_shape=shape(100_000), float_val=[1.5])
    with grpc.insecure_channel(server.grpc, options=[("grpc.max_receive_message_length", 500_000)]) as channel:
        data = channel.unary_unary(f"{SERVICE}/Predict")(request("half", x=tensor))
    assert len(PredictResponse.FromString(data).outputs["y"].float_val) == 100_000


@pytest.mark.parametrize(
    "method", [f"{SERVICE}/PredictStreamed", "/tensorflow.serving.SessionService/SessionRun", "/a/b", "/a"]
)
def test_unknown_methods(server: BridgeServer, method: str) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        unary, streamed = channel.unary_unary(method), channel.unary_stream(method)
        assert failed(lambda: unary(b"")) == (grpc.StatusCode.UNIMPLEMENTED, "")
        assert failed(lambda: list(streamed(b""))) == (grpc.StatusCode.UNIMPLEMENTED, "")


@pytest.mark.parametrize("method", ["Predict", "Classify", "Regress", "MultiInference", "GetModelMetadata"])
@pytest.mark.parametrize("data", [b"\xff\xff", b"\x0a\x05a", b"\x0a\x03\x0a\x01\xff"])
def test_bytes_that_are_no_request(server: BridgeServer, method: str, data: bytes) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        code, details = failed(lambda: channel.unary_unary(f"{SERVICE}/{method}")(data))
    assert code is grpc.StatusCode.INTERNAL
    assert details


def test_long_and_odd_error_texts(predict: Call) -> None:
    for name in ("ü" * 2000, "\0\n" + "a" * 1021 + "\U0001f600" * 9, "a" * 2000):
        code, details = failed(lambda name=name: predict(request(name)))
        assert code is grpc.StatusCode.NOT_FOUND
        text, _, rest = details.partition("...TRUNCATED")
        assert rest == ""
        assert 1021 <= len(text.encode()) <= 1024
        assert f"Servable not found for request: Latest({name})".startswith(text)


def test_tensor_content_on_demand(start: Start, tmp_path: Path) -> None:
    """REST works all the same, where TF Serving's own has no defined answer."""
    savedmodels.make("echo", tmp_path / "echo" / "1")
    flags = ("--model_name=echo", f"--model_base_path={tmp_path}/echo", "--enable_serialization_as_tensor_content=true")
    server = start(*flags)
    sent = {
        "float": TensorProto(dtype=DT_FLOAT, tensor_shape=shape(2), float_val=[1, 2]),
        "string": TensorProto(dtype=DT_STRING, tensor_shape=shape(2), string_val=[b"a", b"bc"]),
    }
    contents = {"float": b"\0\0\x80?\0\0\0@", "string": b"\x01\x02abc"}
    with grpc.insecure_channel(server.grpc) as channel:
        for signature, tensor in sent.items():
            data = channel.unary_unary(f"{SERVICE}/Predict")(request("echo", signature, x=tensor))
            output = PredictResponse.FromString(data).outputs["y"]
            assert output.tensor_content == contents[signature]
            assert not output.float_val
            assert not output.string_val
    answer = server.request("POST", "/v1/models/echo:predict", '{"signature_name": "float", "instances": [1, 2]}')
    assert answer.json == {"predictions": [1.0, 2.0]}
