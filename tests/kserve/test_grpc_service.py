"""The V2 protocol through a real gRPC socket, with Triton's official client where it can say it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from bridge.errors import Code
from tests.tfserving.server_thread import ServerThread

X = np.array([1.0, 2.0, 5.0], np.float32)
RAW = X.tobytes()


@pytest.fixture(scope="module")
def client(server: ServerThread) -> Iterator[grpcclient.InferenceServerClient]:
    with grpcclient.InferenceServerClient(server.address) as client:
        yield client


@pytest.fixture(scope="module")
def channel(server: ServerThread) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


def call(channel: grpc.Channel, method: str, request: Any, response: Any) -> Any:
    rpc = channel.unary_unary(
        f"/inference.GRPCInferenceService/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=response.FromString,
    )
    return rpc(request, timeout=10)


def infer(channel: grpc.Channel, request: Any) -> Any:
    return call(channel, "ModelInfer", request, service_pb2.ModelInferResponse)


def request(model: str = "half", **fields: Any) -> Any:
    """A request with the input `x`, unless `inputs` says otherwise."""
    fields.setdefault("inputs", [{"name": "x", "datatype": "FP32", "shape": [3]}])
    fields.setdefault("raw_input_contents", [RAW] * len(fields["inputs"]))
    return service_pb2.ModelInferRequest(model_name=model, **fields)


def tensor(name: str = "x", data: Any = X, datatype: str = "FP32") -> grpcclient.InferInput:
    item = grpcclient.InferInput(name, data.shape, datatype)
    item.set_data_from_numpy(data)
    return item


def test_infer(client: grpcclient.InferenceServerClient) -> None:
    result = client.infer("half", [tensor()], request_id="seven", outputs=[grpcclient.InferRequestedOutput("y")])
    response = result.get_response()
    assert (response.model_name, response.model_version, response.id) == ("half", "123", "seven")
    assert result.as_numpy("y").tolist() == [2.5, 3.0, 4.5]


@pytest.mark.parametrize("shape", [(1,), (2, 1), (0, 1), (1, 2, 2)])
def test_shapes_are_true(client: grpcclient.InferenceServerClient, shape: tuple[int, ...]) -> None:
    result = client.infer("half", [tensor(data=np.ones(shape, np.float32))], model_version="123")
    assert result.as_numpy("y").shape == shape


def test_scalars(channel: grpc.Channel) -> None:
    scalar = {"name": "x", "datatype": "FP32", "shape": []}
    [output] = infer(channel, request(inputs=[scalar], raw_input_contents=[RAW[:4]])).outputs
    assert (output.name, list(output.shape)) == ("y", [])


def test_a_parameter_chooses_the_signature(client: grpcclient.InferenceServerClient) -> None:
    inputs = [tensor("a"), tensor("b")]
    assert client.infer("half", inputs, parameters={"signature_name": "add"}).as_numpy("sum").tolist() == [2, 4, 10]
    defaulted = client.infer("half", [tensor("a", X[:1])], parameters={"signature_name": "add_default"})
    assert defaulted.as_numpy("sum").tolist() == [6.0]
    words = np.array([b"a\0b", b"", "ü".encode()], np.object_)
    text = client.infer("half", [tensor("s", words, "BYTES")], parameters={"signature_name": "text"})
    assert text.as_numpy("s").tolist() == text.as_numpy("s_bytes").tolist() == words.tolist()


def test_complex_numbers_are_pairs(client: grpcclient.InferenceServerClient) -> None:
    pairs = np.array([[1.0, 2.0], [3.0, -4.0], [0.0, 0.5]])
    result = client.infer("half", [tensor("z", pairs, "FP64")], parameters={"signature_name": "complex"})
    assert result.as_numpy("z").tolist() == pairs.tolist()


def test_typed_contents(channel: grpc.Channel) -> None:
    typed = {"name": "x", "datatype": "FP32", "shape": [3], "contents": {"fp32_contents": [1, 2, 5]}}
    response = infer(channel, request(inputs=[typed], raw_input_contents=[]))
    assert struct.unpack("<3f", response.raw_output_contents[0]) == (2.5, 3.0, 4.5)


X3 = {"name": "x", "datatype": "FP32", "shape": [3]}


@pytest.mark.parametrize(
    ("model", "fields", "code", "message"),
    [
        ("nope", {}, Code.NOT_FOUND, "Request for unknown model: 'nope' is not found"),
        ("half", {"model_version": "9"}, Code.NOT_FOUND, "Request for unknown model: 'half' version 9 is not found"),
        (
            "half",
            {"model_version": "abc"},
            Code.INVALID_ARGUMENT,
            "failed to get model version from specified version string 'abc', version should be an integral value > 0",
        ),
        ("empty", {}, Code.NOT_FOUND, "Request for unknown model: 'empty' is not found"),
        ("lost", {}, Code.UNAVAILABLE, "Model lost version 3 has no ready copy on Triton now."),
        (
            "half",
            {"inputs": [X3, X3]},
            Code.INVALID_ARGUMENT,
            "input 'x' already exists in request for model 'half'",
        ),
        (
            "half",
            {"inputs": [X3 | {"name": "zz"}]},
            Code.INVALID_ARGUMENT,
            "unexpected inference input 'zz' for model 'half'",
        ),
        (
            "half",
            {"inputs": []},
            Code.INVALID_ARGUMENT,
            "expected number of inputs 1 but got 0 inputs for model 'half', missing required input(s) ['x']",
        ),
        (
            "half",
            {"inputs": [X3 | {"datatype": "INT32"}]},
            Code.INVALID_ARGUMENT,
            "inference input 'x' data-type is 'INT32', but model 'half' expects 'FP32'",
        ),
        (
            "half",
            {"inputs": [X3 | {"shape": [4]}]},
            Code.INVALID_ARGUMENT,
            "input byte size mismatch for input 'x' for model 'half'. Expected 16, got 12",
        ),
        (
            "half",
            {"inputs": [X3 | {"shape": [-3]}]},
            Code.INVALID_ARGUMENT,
            "input 'x' for model 'half' cannot have the shape [-3]",
        ),
        (
            "half",
            {"raw_input_contents": [RAW, RAW]},
            Code.INVALID_ARGUMENT,
            "expected 1 raw input contents for model 'half', one for each input, got 2",
        ),
        (
            "half",
            {"inputs": [X3 | {"contents": {"fp32_contents": [1, 2, 5]}}]},
            Code.INVALID_ARGUMENT,
            "contents field must not be specified when using raw_input_contents for 'x' for model 'half'",
        ),
        (
            "half",
            {"inputs": [X3 | {"contents": {"fp64_contents": [1, 2, 5]}}], "raw_input_contents": []},
            Code.INVALID_ARGUMENT,
            "input 'x' for model 'half' is FP32, which fp32_contents carries, not fp64_contents",
        ),
        (
            "half",
            {"outputs": [{"name": "nope"}]},
            Code.INVALID_ARGUMENT,
            "unexpected inference output 'nope' for model 'half'",
        ),
        (
            "half",
            {"outputs": [{"name": "y", "parameters": {"classification": {"int64_param": 1}}}]},
            Code.UNIMPLEMENTED,
            "Output 'y' of model 'half': classification is not supported.",
        ),
        (
            "half",
            {"inputs": [X3 | {"parameters": {"shared_memory_region": {"string_param": "r"}}}]},
            Code.UNIMPLEMENTED,
            "Tensor 'x' of model 'half': shared memory is not supported, send and receive contents.",
        ),
        (
            "half",
            {"parameters": {"signature_name": {"string_param": "broken"}}},
            Code.UNIMPLEMENTED,
            "Signature broken cannot be served: input r is a resource.",
        ),
        (
            "half",
            {
                "parameters": {"signature_name": {"string_param": "text"}},
                "inputs": [{"name": "s", "datatype": "BYTES", "shape": [2]}],
                "raw_input_contents": [b"\1\0\0\0a"],
            },
            Code.INVALID_ARGUMENT,
            "unexpected number of string elements 1 for inference input 's' for model 'half', expecting 2",
        ),
        (
            "half",
            {
                "parameters": {"signature_name": {"string_param": "complex"}},
                "inputs": [{"name": "z", "datatype": "FP64", "shape": [3]}],
                "raw_input_contents": [bytes(24)],
            },
            Code.INVALID_ARGUMENT,
            "input 'z' for model 'half' holds complex numbers: the last dimension has to be 2, real and imaginary part",
        ),
    ],
)
def test_refusals(channel: grpc.Channel, model: str, fields: dict[str, Any], code: Code, message: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        infer(channel, request(model, **fields))
    assert (caught.value.code().value[0], caught.value.details()) == (code, message)


def test_an_unknown_signature_is_answered_with_those_that_there_are(channel: grpc.Channel) -> None:
    with pytest.raises(
        grpc.RpcError, match=r"model 'half' has no signature 'nope'; it has: add, add_default, "
    ) as caught:
        infer(channel, request(parameters={"signature_name": {"string_param": "nope"}}))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_timeout_of_a_request(server: ServerThread, client: grpcclient.InferenceServerClient) -> None:
    client.infer("half", [tensor()], timeout=2_000_000)
    assert 1 < server.leg.timeouts[-1] <= 2
    server.hold(True)
    with pytest.raises(InferenceServerException) as caught:
        client.infer("half", [tensor()], timeout=50_000)
    server.hold(False)
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"


def test_readiness(client: grpcclient.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    ready = {name: client.is_model_ready(name) for name in ("half", "lost", "empty", "nope")}
    assert ready == {"half": True, "lost": False, "empty": False, "nope": False}
    assert client.is_model_ready("half", "123")
    assert not client.is_model_ready("half", "124")


def test_metadata(client: grpcclient.InferenceServerClient) -> None:
    metadata = client.get_model_metadata("half")
    assert (metadata.name, list(metadata.versions), metadata.platform) == ("half", ["123"], "tensorflow_savedmodel")
    [x], [y] = metadata.inputs, metadata.outputs
    assert (x.name, x.datatype, list(x.shape)) == ("x", "FP32", [-1])
    assert (y.name, y.datatype, list(y.shape)) == ("y", "FP32", [-1])
    server = client.get_server_metadata()
    assert server.name == "triton-bridge"
    assert "binary_tensor_data" in server.extensions


def test_configuration(client: grpcclient.InferenceServerClient) -> None:
    config = client.get_model_config("half").config
    assert (config.name, config.max_batch_size, config.backend) == ("half", 0, "tensorflow")
    assert [(item.name, item.data_type, list(item.dims)) for item in config.input] == [("x", 11, [-1])]
    names = config.parameters["signature_names"].string_value.split(",")
    assert "serving_default" in names
    assert "broken" not in names


def test_index(client: grpcclient.InferenceServerClient) -> None:
    rows = [(row.name, row.version, row.state, row.reason) for row in client.get_model_repository_index().models]
    assert ("half", "123", "READY", "") in rows
    assert ("half", "124", "UNAVAILABLE", "it failed") in rows


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("load_model", ("half",)),
        ("unload_model", ("half",)),
        ("get_system_shared_memory_status", ()),
        ("get_cuda_shared_memory_status", ()),
        ("get_trace_settings", ()),
        ("get_log_settings", ()),
    ],
)
def test_control_is_refused_with_a_sentence(
    client: grpcclient.InferenceServerClient, method: str, asked: tuple[str, ...]
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        getattr(client, method)(*asked)
    assert caught.value.status() == "StatusCode.UNIMPLEMENTED"
    assert caught.value.message().endswith(".")


def stream(channel: grpc.Channel, requests: list[Any]) -> list[Any]:
    rpc = channel.stream_stream(
        "/inference.GRPCInferenceService/ModelStreamInfer",
        request_serializer=service_pb2.ModelInferRequest.SerializeToString,
        response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
    )
    return list(rpc(iter(requests), timeout=10))


def test_a_stream_answers_in_order_and_outlives_errors(channel: grpc.Channel) -> None:
    names = ["half" if number % 7 else "nope" for number in range(100)]
    responses = stream(channel, [request(name, id=str(number)) for number, name in enumerate(names)])
    assert [response.infer_response.id for response in responses] == [str(number) for number in range(100)]
    for name, response in zip(names, responses, strict=True):
        if name == "nope":
            assert response.error_message == "Request for unknown model: 'nope' is not found"
        else:
            assert struct.unpack("<3f", response.infer_response.raw_output_contents[0]) == (2.5, 3.0, 4.5)
            assert response.infer_response.parameters["triton_final_response"].bool_param


def test_an_empty_stream_ends(channel: grpc.Channel) -> None:
    assert stream(channel, []) == []
