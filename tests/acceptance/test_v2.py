"""The KServe V2 protocol with Triton's official clients against a real bridge over a real Triton."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from tests.support.bridge_server import BridgeServer

pytestmark = pytest.mark.integration

PAIRS = {"complex64": "FP32", "complex128": "FP64"}
"""Complex numbers go as pairs of floats."""


@pytest.fixture(scope="module", autouse=True)
def loaded(zoo: BridgeServer) -> None:
    """A server is READY when every model serves some version."""
    zoo.wait_for_states("numbered", {1: "AVAILABLE", 123: "AVAILABLE"})


@pytest.fixture(scope="module")
def grpc_client(zoo: BridgeServer) -> Iterator[grpcclient.InferenceServerClient]:
    with grpcclient.InferenceServerClient(zoo.grpc) as client:
        yield client


@pytest.fixture(scope="module")
def http_client(zoo: BridgeServer) -> Iterator[httpclient.InferenceServerClient]:
    client = httpclient.InferenceServerClient(zoo.rest)
    yield client
    client.close()


@pytest.fixture(scope="module", params=["grpc", "http"])
def client(request: pytest.FixtureRequest) -> Any:
    """Both clients, which have one interface for inference."""
    return request.getfixturevalue(f"{request.param}_client")


def tensor(client: Any, name: str, data: Any, datatype: str) -> Any:
    module = grpcclient if isinstance(client, grpcclient.InferenceServerClient) else httpclient
    item = module.InferInput(name, list(data.shape), datatype)
    item.set_data_from_numpy(data)
    return item


def ask(client: Any, model: str, signature: str = "", version: str = "", **inputs: Any) -> Any:
    """The answer for `inputs`, each a datatype and an array."""
    tensors = [tensor(client, name, np.asarray(data), datatype) for name, (datatype, data) in inputs.items()]
    return client.infer(
        model, tensors, model_version=version, parameters={"signature_name": signature} if signature else None
    )


def floats(*values: float) -> tuple[str, Any]:
    return "FP32", np.array(values, np.float32)


@pytest.mark.parametrize(("version", "bias"), [("", 123.0), ("123", 123.0), ("1", 1.0)])
def test_versions(client: Any, version: str, bias: float) -> None:
    answer = ask(client, "numbered", version=version, x=("FP32", np.array([[1], [2]], np.float32)))
    assert answer.as_numpy("y").tolist() == [[0.5 + bias], [1 + bias]]


def test_signatures(client: Any) -> None:
    answer = ask(client, "half_plus_two", "regress_x2_to_y3", inputs=("FP32", np.array([[2]], np.float32)))
    assert answer.as_numpy("outputs").tolist() == [[4.0]]


@pytest.mark.parametrize("shape", [(1,), (3, 2), (0, 4), (1, 1, 2, 1)])
def test_shapes_are_true(client: Any, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    answer = ask(client, "declared_one", "unknown_rank", x=("FP32", x))
    assert answer.as_numpy("y").tolist() == (x + x).tolist()
    assert answer.as_numpy("shape").tolist() == list(shape)


def test_bytes_of_any_kind(client: Any) -> None:
    words = [b"apple", b"", b"b\xff\xfe", "naïve".encode(), b"a\0b"]
    answer = ask(client, "strings", words=("BYTES", np.array(words, np.object_)))
    assert answer.as_numpy("words").tolist() == words
    assert answer.as_numpy("ids").tolist()[:1] == [0]
    assert answer.as_numpy("length").tolist() == [len(word) for word in words]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
def test_every_dtype_comes_back_bit_by_bit(zoo: BridgeServer, dtype: Any) -> None:
    pair = dtype.name in PAIRS
    shape = [2, 3, 2] if pair else [2, 3]
    data = b"".join(b"\1\0\0\0" + bytes([n]) for n in range(6)) if dtype.is_string else _bits(dtype, math.prod([2, 3]))
    request = service_pb2.ModelInferRequest(model_name="dtypes", raw_input_contents=[data])
    request.parameters["signature_name"].string_param = dtype.name
    datatype = PAIRS.get(dtype.name, dtype.triton)
    request.inputs.add(name="x", datatype=datatype, shape=shape)
    with grpc.insecure_channel(zoo.grpc) as channel:
        rpc = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        response = rpc(request, timeout=30)
    assert {output.name for output in response.outputs} == {"same", "again"}
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        assert (output.datatype, list(output.shape), raw) == (datatype, shape, data)


def _bits(dtype: Any, count: int) -> bytes:
    if dtype.name == "bool":
        return bytes([0, 1] * (count // 2))
    return bytes(number % 7 for number in range(count * dtype.itemsize))


def test_json_and_typed_contents(zoo: BridgeServer) -> None:
    x = {"name": "x", "datatype": "FP32", "shape": [2, 1], "data": [2, 4.5]}
    connection = http.client.HTTPConnection(zoo.rest, timeout=30)
    connection.request("POST", "/v2/models/half_plus_two/infer", json.dumps({"inputs": [x]}))
    reply = json.load(connection.getresponse())
    connection.close()
    assert reply["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [2, 1], "data": [3.0, 4.25]}]


def test_the_models_own_errors(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="x too big"):
        ask(client, "failures", x=floats(100.0))
    assert ask(client, "failures", x=floats(1.0)).as_numpy("y").tolist() == [1.0]
    with pytest.raises(InferenceServerException, match="unknown model: 'nope' is not found"):
        ask(client, "nope", x=floats(1.0))


def test_what_clients_see_of_a_model(
    grpc_client: grpcclient.InferenceServerClient, http_client: httpclient.InferenceServerClient
) -> None:
    over_grpc = grpc_client.get_model_metadata("strings", as_json=True)
    over_http = http_client.get_model_metadata("strings")
    assert over_http["inputs"] == [{"name": "words", "datatype": "BYTES", "shape": [-1]}]
    assert [item["name"] for item in over_http["outputs"]] == ["ids", "length", "words"]
    assert [item["name"] for item in over_grpc["outputs"]] == ["ids", "length", "words"]
    assert http_client.get_model_metadata("numbered")["versions"] == ["1", "123"]
    assert http_client.get_model_config("declared_one")["input"] == [
        {"name": "x", "data_type": "TYPE_FP32", "dims": [1]}
    ]


def test_readiness(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("half_plus_two")
    assert client.is_model_ready("numbered", "1")
    assert not client.is_model_ready("numbered", "2")
    assert not client.is_model_ready("nope")


def test_statistics_are_those_of_triton(client: Any) -> None:
    before = _inferences(client)
    for _ in range(3):
        ask(client, "counter", "get_counter")
    assert _inferences(client) == before + 3


def _inferences(client: Any) -> int:
    options = {"as_json": True} if isinstance(client, grpcclient.InferenceServerClient) else {}
    [row] = client.get_inference_statistics("counter", **options)["model_stats"]
    assert (row["name"], row["version"]) == ("counter", "1")
    return int(row.get("inference_count", 0))


def test_streams(grpc_client: grpcclient.InferenceServerClient) -> None:
    answers: list[Any] = []
    grpc_client.start_stream(callback=lambda result, error: answers.append((result, error)))
    for number in range(50):
        model = "half_plus_two" if number % 10 else "nope"
        grpc_client.async_stream_infer(
            model, [tensor(grpc_client, "x", np.full((1, 1), number, np.float32), "FP32")], request_id=str(number)
        )
    grpc_client.stop_stream()
    assert len(answers) == 50
    for number, (result, error) in enumerate(answers):
        if number % 10:
            assert result.as_numpy("y").tolist() == [[number / 2 + 2]]
        else:
            assert "'nope' is not found" in str(error)


def test_large_tensors(client: Any) -> None:
    x = np.arange(1 << 20, dtype=np.float32).reshape(1 << 10, 1 << 10)
    assert np.array_equal(ask(client, "declared_one", "unknown_rank", x=("FP32", x)).as_numpy("y"), x + x)
