"""Both services through a real gRPC socket, with the official client where it can say it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import pytest

from bridge.errors import Unavailable
from bridge.tfserving.grpc_server import GrpcServer
from model_repo_sync.protos.tensorflow_serving import predict_pb2
from tests.serving import snapshots
from tests.support.official_client import OfficialClient
from tests.tfserving.conftest import Ask, half_plus_two
from tests.tfserving.server_thread import ServerThread, until
from tests.transport.served import SERVERS

DT_FLOAT, DT_STRING, DT_INT64 = 1, 7, 9
X = {"x": {"dtype": "float32", "values": [1.0, 2.0, 5.0]}}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    server = ServerThread(grpc_server=request.param)
    server.publish(half_plus_two())
    yield server
    server.close()


@pytest.fixture(scope="module")
def ask(server: ServerThread, client: OfficialClient) -> Ask:
    return partial(client.ask, server.address)


@pytest.fixture
def channel(server: ServerThread) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        yield channel


@pytest.mark.parametrize(
    ("spec", "signature"),
    [
        ({"name": "half"}, "serving_default"),
        ({"name": "half", "version": 123}, "serving_default"),
        ({"name": "half", "label": "Version_Label"}, "serving_default"),
        ({"name": "half", "signature": "serving_default"}, "serving_default"),
        ({"name": "half", "signature": "twice_fetched"}, "twice_fetched"),
    ],
)
def test_predict(ask: Ask, spec: dict[str, Any], signature: str) -> None:
    answer = ask("predict", spec=spec, inputs=X)
    assert answer["spec"] == {"name": "half", "version": 123, "signature": signature}
    for output in answer["outputs"].values():
        assert output == {
            "dtype": DT_FLOAT,
            "shape": [3],
            "values": [2.5, 3.0, 4.5],
            "float_val": [2.5, 3.0, 4.5],
            "content": 0,
        }


@pytest.mark.parametrize(
    ("shape", "values"),
    [([], 2.0), ([1], [2.0]), ([2, 1], [[2.0], [4.0]]), ([0, 1], []), ([1, 2, 2], [[[1.0] * 2] * 2])],
)
def test_predict_takes_any_shape(ask: Ask, shape: list[int], values: Any) -> None:
    tensor = {"dtype": "float32", "values": values, "shape": shape}
    assert ask("predict", spec={"name": "half"}, inputs={"x": tensor})["outputs"]["y"]["shape"] == shape


def test_predict_other_signatures(ask: Ask) -> None:
    two = {"dtype": "float32", "values": 2.0}
    regress = ask("predict", spec={"name": "half", "signature": "regress_x2_to_y3"}, inputs={"inputs": two})
    assert regress["outputs"]["outputs"]["values"] == 4.0
    count = ask("predict", spec={"name": "half", "signature": "count"})
    assert count["outputs"]["output"] == {"dtype": DT_INT64, "shape": [], "values": 7, "float_val": [], "content": 0}
    defaulted = ask("predict", spec={"name": "half", "signature": "add_default"}, inputs={"a": two})
    assert defaulted["outputs"]["sum"]["values"] == 7.0
    text = ask(
        "predict",
        spec={"name": "half", "signature": "text"},
        inputs={"s": {"dtype": "string", "values": ["a\0b", "", "ü"]}},
        filter=["s_bytes"],
    )
    assert list(text["outputs"]) == ["s_bytes"]
    assert text["outputs"]["s_bytes"]["values"] == ["a\0b", "", "ü"]


@pytest.mark.parametrize(
    ("question", "code", "details"),
    [
        ({"spec": None}, "INVALID_ARGUMENT", "Missing ModelSpec"),
        ({"spec": {}}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
        ({"spec": {"name": "nope"}}, "NOT_FOUND", "Servable not found for request: Latest(nope)"),
        ({"spec": {"name": "half", "version": 0}}, "NOT_FOUND", "Servable not found for request: Specific(half, 0)"),
        (
            {"spec": {"name": "half", "version": 124}},
            "NOT_FOUND",
            "Servable not found for request: Specific(half, 124)",
        ),
        ({"spec": {"name": "half", "label": "x"}}, "INVALID_ARGUMENT", "Unrecognized servable version label: x"),
        ({"spec": {"name": "half", "label": "gone"}}, "NOT_FOUND", "Servable not found for request: Specific(half, 7)"),
        ({"spec": {"name": "lost"}}, "UNAVAILABLE", "Model lost version 3 has no ready copy on Triton now."),
        (
            {"spec": {"name": "half", "signature": "nope"}},
            "FAILED_PRECONDITION",
            'Serving signature key "nope" not found.',
        ),
        (
            {"spec": {"name": "half"}, "inputs": {}},
            "INVALID_ARGUMENT",
            "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}. Missing but required: {x}.",
        ),
        (
            {"spec": {"name": "half"}, "inputs": {"x": {"dtype": "bool", "values": True}}},
            "INVALID_ARGUMENT",
            "Expects arg[0] to be float but bool is provided",
        ),
        (
            {"spec": {"name": "half"}, "filter": ["y", "y"]},
            "INVALID_ARGUMENT",
            "duplicate output tensor alias: y",
        ),
    ],
)
def test_predict_refuses(ask: Ask, question: dict[str, Any], code: str, details: str) -> None:
    assert ask("predict", **{"inputs": X, **question}) == {"code": code, "details": details}


@pytest.mark.parametrize(
    ("question", "code", "details"),
    [
        ({"fields": ["signature_def"]}, "INVALID_ARGUMENT", "Missing ModelSpec"),
        ({"spec": {}}, "INVALID_ARGUMENT", "GetModelMetadataRequest must specify at least one metadata_field"),
        ({"spec": {}, "fields": ["some_stuff"]}, "INVALID_ARGUMENT", "Metadata field some_stuff is not supported"),
        ({"spec": {}, "fields": ["signature_def"]}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
        (
            {"spec": {"name": "nope"}, "fields": ["signature_def"]},
            "NOT_FOUND",
            "Servable not found for request: Latest(nope)",
        ),
    ],
)
def test_metadata_refuses(ask: Ask, question: dict[str, Any], code: str, details: str) -> None:
    assert ask("metadata", **question) == {"code": code, "details": details}


def test_metadata(ask: Ask) -> None:
    spec = {"name": "half", "label": "Version_Label", "signature": "serving_default"}
    assert ask("metadata", spec=spec, fields=["signature_def"]) == {
        "spec": {"name": "half", "version": 123, "signature": ""},
        "keys": ["signature_def"],
        "signatures": ["__saved_model_init_op", "serving_default"],
        "inputs": {"x": "x:0"},
    }


@pytest.mark.parametrize(
    ("question", "code", "details"),
    [
        ({}, "INVALID_ARGUMENT", "Missing ModelSpec"),
        ({"spec": {}}, "NOT_FOUND", "Could not find any versions of model "),
        ({"spec": {"name": "nope"}}, "NOT_FOUND", "Could not find any versions of model nope"),
        ({"spec": {"name": "half", "version": 9}}, "NOT_FOUND", "Could not find version 9 of model half"),
        ({"spec": {"name": "nope", "version": 9}}, "NOT_FOUND", "Could not find version 9 of model nope"),
    ],
)
def test_status_refuses(ask: Ask, question: dict[str, Any], code: str, details: str) -> None:
    assert ask("status", **question) == {"code": code, "details": details}


@pytest.mark.parametrize(
    ("spec", "versions"),
    [
        ({"name": "half"}, [124, 123]),
        ({"name": "half", "version": 123}, [123]),
        ({"name": "half", "label": "unknown"}, [124, 123]),
        ({"name": "empty"}, [1]),
    ],
)
def test_status(ask: Ask, spec: dict[str, Any], versions: list[int]) -> None:
    rows = {123: [123, 30, 0, ""], 124: [124, 50, 2, "it failed"], 1: [1, 50, 2, "it failed"]}
    assert ask("status", spec=spec) == {"rows": [rows[version] for version in versions]}


@pytest.mark.parametrize(
    "method",
    ["/tensorflow.serving.PredictionService/PredictStreamed", "/tensorflow.serving.SessionService/SessionRun", "/a/b"],
)
def test_unknown_methods(channel: grpc.Channel, method: str) -> None:
    failure = _failure(channel, method, b"")
    assert (failure.code(), failure.details()) == (grpc.StatusCode.UNIMPLEMENTED, "")


@pytest.mark.parametrize(
    "method",
    [
        "/tensorflow.serving.PredictionService/Predict",
        "/tensorflow.serving.PredictionService/GetModelMetadata",
        "/tensorflow.serving.ModelService/GetModelStatus",
    ],
)
def test_bytes_that_are_no_message(channel: grpc.Channel, method: str) -> None:
    assert _failure(channel, method, b"\xff\xff").code() is grpc.StatusCode.INTERNAL


def test_long_messages_are_cut_between_characters(channel: grpc.Channel) -> None:
    name = "ü" * 1000
    request = predict_pb2.PredictRequest(model_spec={"name": name}).SerializeToString()
    details = _failure(channel, "/tensorflow.serving.PredictionService/Predict", request).details()
    kept, _, rest = details.partition("...TRUNCATED")
    assert rest == ""
    assert 1022 <= len(kept.encode()) <= 1024
    assert f"Servable not found for request: Latest({name})".startswith(kept)


def test_deadline(ask: Ask, server: ServerThread) -> None:
    server.hold(True)
    try:
        started = time.monotonic()
        assert ask("predict", spec={"name": "half"}, inputs=X, timeout=0.2)["code"] == "DEADLINE_EXCEEDED"
        assert time.monotonic() - started < 2
    finally:
        server.hold(False)


def test_cancellation_travels(channel: grpc.Channel, server: ServerThread) -> None:
    server.hold(True)
    cancelled, calls = server.leg.cancelled, len(server.leg.calls)
    try:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict").future(_predict_x(1))
        until(lambda: len(server.leg.calls) > calls)
        call.cancel()
        until(lambda: server.leg.cancelled > cancelled)
    finally:
        server.hold(False)


def test_messages_past_4_mib(channel: grpc.Channel) -> None:
    response = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(_predict_x(2_000_000))
    assert len(predict_pb2.PredictResponse.FromString(response).outputs["y"].float_val) == 2_000_000


def test_tensor_content_on_demand() -> None:
    server = ServerThread(as_content=True)
    try:
        server.publish(snapshots.routes(snapshots.model("half", [snapshots.servable()])))
        with grpc.insecure_channel(server.address) as channel:
            data = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(_predict_x(3))
        output = predict_pb2.PredictResponse.FromString(data).outputs["y"]
        assert (len(output.tensor_content), len(output.float_val)) == (12, 0)
    finally:
        server.close()


def test_a_taken_port_is_an_error(server: ServerThread) -> None:
    async def start() -> None:
        await GrpcServer(server.core).start(server.address)

    with pytest.raises(Unavailable, match=f"^The gRPC address {server.address} cannot be bound"):
        server.run(start)


def _predict_x(count: int) -> bytes:
    request = predict_pb2.PredictRequest(model_spec={"name": "half"})
    request.inputs["x"].dtype = DT_FLOAT
    request.inputs["x"].tensor_shape.dim.add(size=count)
    request.inputs["x"].float_val.extend([1.0] * count)
    return request.SerializeToString()


def _failure(channel: grpc.Channel, method: str, request: bytes) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(method)(request)
    return caught.value
