"""The V2 protocol over HTTP: what Triton's official client does not say."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as httpclient

from tests.tfserving.conftest import Reply, half_plus_two, request
from tests.tfserving.server_thread import ServerThread

INFER = "/v2/models/half/infer"
X = {"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2, 5]}


@pytest.fixture(scope="module")
def client(server: ServerThread) -> Iterator[httpclient.InferenceServerClient]:
    client = httpclient.InferenceServerClient(f"127.0.0.1:{server.rest_port}")
    yield client
    client.close()


def post(server: ServerThread, document: Any, target: str = INFER, headers: dict[str, str] | None = None) -> Reply:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return request(server, "POST", target, body, headers)


@pytest.mark.parametrize("binary_in", [False, True])
@pytest.mark.parametrize("binary_out", [False, True])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_the_official_client(
    client: httpclient.InferenceServerClient, binary_in: bool, binary_out: bool, compression: str | None
) -> None:
    x = httpclient.InferInput("x", [3, 1], "FP32")
    x.set_data_from_numpy(np.array([[1], [2], [5]], np.float32), binary_data=binary_in)
    y = httpclient.InferRequestedOutput("y", binary_data=binary_out)
    result = client.infer("half", [x], outputs=[y], request_id="7", request_compression_algorithm=compression)
    assert result.as_numpy("y").tolist() == [[2.5], [3.0], [4.5]]
    response = result.get_response()
    assert (response["model_name"], response["model_version"], response["id"]) == ("half", "123", "7")


@pytest.mark.parametrize("binary", [False, True])
def test_strings(client: httpclient.InferenceServerClient, binary: bool) -> None:
    words = np.array(["a", "", "ü"], np.object_)
    s = httpclient.InferInput("s", [3], "BYTES")
    s.set_data_from_numpy(words, binary_data=binary)
    outputs = [httpclient.InferRequestedOutput("s", binary_data=binary)]
    result = client.infer("half", [s], outputs=outputs, parameters={"signature_name": "text"})
    expected = [b"a", b"", "ü".encode()] if binary else ["a", "", "ü"]
    assert result.as_numpy("s").tolist() == expected


def test_json_alone(server: ServerThread) -> None:
    reply = post(server, {"inputs": [X | {"shape": [3, 1], "data": [[1], [2], [5]]}]})
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == {
        "model_name": "half",
        "model_version": "123",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [3, 1], "data": [2.5, 3.0, 4.5]}],
    }


def test_a_request_for_binary_outputs(server: ServerThread) -> None:
    reply = post(server, {"inputs": [X], "parameters": {"binary_data_output": True}})
    size = int(reply.headers["inference-header-content-length"])
    assert reply.headers["content-type"] == "application/octet-stream"
    assert json.loads(reply.body[:size])["outputs"][0]["parameters"] == {"binary_data_size": 12}
    assert struct.unpack("<3f", reply.body[size:]) == (2.5, 3.0, 4.5)


def test_bodies_may_be_compressed(server: ServerThread) -> None:
    body = json.dumps({"inputs": [X]}).encode()
    for encoding, data in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
        assert post(server, data, headers={"Content-Encoding": encoding}).status == 200


@pytest.mark.parametrize(
    ("document", "status", "error"),
    [
        (b"{", 400, "failed to parse the request JSON buffer: "),
        ([], 400, "the request has to be a JSON object"),
        ({"inputs": {}}, 400, "'inputs' has to be an array"),
        ({"inputs": [1]}, 400, "each of the request's inputs has to be a JSON object with a name"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [3]}]}, 400, "input 'x': 'data' has to be an array"),
        ({"inputs": [X | {"shape": ["3"]}]}, 400, "input 'x': shape has to hold whole numbers"),
        ({"inputs": [X | {"data": ["a"]}]}, 400, "input 'x' for model 'half' holds a value that is no FP32"),
        (
            {"inputs": [X | {"data": [True, False, True]}]},
            400,
            "input 'x' for model 'half' holds a value that is no FP",
        ),
        (
            {"inputs": [X | {"data": [1, 2]}]},
            400,
            "input byte size mismatch for input 'x' for model 'half'. Expected 12",
        ),
        (
            {"inputs": [X | {"datatype": "FP16"}]},
            400,
            "input 'x' for model 'half' is 'FP16', which JSON does not carry",
        ),
        (
            {"inputs": [X | {"datatype": "INT32"}]},
            400,
            "inference input 'x' data-type is 'INT32', but model 'half' exp",
        ),
        (
            {"inputs": [X | {"datatype": "INT8", "data": [1, 2, 300]}]},
            400,
            "input 'x' for model 'half' holds a number ",
        ),
        (
            {"inputs": [X | {"datatype": "INT8", "data": [1, 2, 0.5]}]},
            400,
            "input 'x' for model 'half' holds a value that is no INT8",
        ),
        ({"inputs": [X], "parameters": {"a": []}}, 400, "parameter 'a' has to be a string, a number or a boolean"),
        (
            {"inputs": [X | {"parameters": {"binary_data_size": 3}}]},
            400,
            "input 'x': binary_data_size 3 is not within ",
        ),
        ({"inputs": [X], "outputs": [{"name": "z"}]}, 400, "unexpected inference output 'z' for model 'half'"),
    ],
)
def test_bad_bodies(server: ServerThread, document: Any, status: int, error: str) -> None:
    reply = post(server, document)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/json")
    assert reply.json["error"].startswith(error)


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"Content-Encoding": "br"}, "Content-Encoding br is not supported"),
        ({"Content-Encoding": "gzip"}, "the request's body cannot be inflated: "),
        ({"Inference-Header-Content-Length": "x"}, "Inference-Header-Content-Length has to be a number"),
        ({"Inference-Header-Content-Length": "2"}, "the request has 3 bytes of binary data that no input claims"),
    ],
)
def test_bad_headers(server: ServerThread, headers: dict[str, str], error: str) -> None:
    reply = post(server, b"{}abc", headers=headers)
    assert reply.status == 400
    assert reply.json["error"].startswith(error)


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/v2", 200),
        ("GET", "/v2/", 200),
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/ready", 200),
        ("GET", "/v2/models/half", 200),
        ("GET", "/v2/models/half/versions/123", 200),
        ("GET", "/v2/models/half/versions/9", 404),
        ("GET", "/v2/models/half/versions/abc", 400),
        ("GET", "/v2/models/half/ready", 200),
        ("GET", "/v2/models/half/versions/123/ready", 200),
        ("GET", "/v2/models/lost/ready", 400),
        ("GET", "/v2/models/nope/ready", 400),
        ("GET", "/v2/models/nope", 404),
        ("GET", "/v2/models/half/config", 200),
        ("GET", "/v2/models/modelname%21%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3D%3F%40%5B%5D", 200),
        ("GET", "/v2/models/half/infer", 404),
        ("POST", "/v2/models/half/nothing", 404),
        ("POST", "/v2/repository/index", 200),
        ("POST", "/v2/repository/models/half/load", 501),
        ("POST", "/v2/repository/models/half/unload", 501),
        ("GET", "/v2/systemsharedmemory/status", 501),
        ("GET", "/v2/nothing", 404),
        ("POST", "/v2/models/nope/infer", 404),
        ("POST", "/v2/models/lost/infer", 503),
    ],
)
def test_urls(server: ServerThread, method: str, target: str, status: int) -> None:
    reply = request(server, method, target, json.dumps({"inputs": [X]}) if target.endswith("infer") else "")
    assert reply.status == status
    if status not in (200, 400) or reply.body:
        assert reply.body
        assert status == 200 or reply.json["error"]


def test_descriptions(client: httpclient.InferenceServerClient) -> None:
    tensors = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]}
    assert client.get_model_metadata("half").items() >= tensors.items()
    config = client.get_model_config("half")
    assert config["max_batch_size"] == 0
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}]
    assert {"name": "half", "version": "123", "state": "READY"} in client.get_model_repository_index()


def test_calls_are_counted_by_their_kind(server: ServerThread) -> None:
    server.observed.clear()
    post(server, {"inputs": [X]})
    request(server, "GET", "/v2/nothing")
    assert [(api, call, code.name) for api, call, code in server.observed] == [
        ("rest", "v2/infer", "OK"),
        ("rest", "v2/malformed", "NOT_FOUND"),
    ]


def test_pages_of_other_origins() -> None:
    server = ServerThread(cors=True)
    server.publish(half_plus_two())
    reply = post(server, {"inputs": [X], "parameters": {"binary_data_output": True}})
    assert reply.headers["access-control-allow-origin"] == "*"
    assert "inference-header-content-length" in reply.headers
    preflight = request(server, "OPTIONS", INFER, headers={"Origin": "http://example.com"})
    assert (preflight.status, preflight.headers["access-control-allow-methods"]) == (200, "POST, GET")
    server.close()
