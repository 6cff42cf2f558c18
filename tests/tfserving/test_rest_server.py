"""The REST port through a real socket."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.errors import Unavailable
from bridge.tfserving.rest_server import RestServer, inflate
from tests.tfserving.conftest import Reply, half_plus_two, request
from tests.tfserving.server_thread import ServerThread, until

PREDICT = "/v1/models/half:predict"
ESCAPED = "modelname%21%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3D%3F%40%5B%5D"


def error(message: str) -> bytes:
    return f'{{\n    "error": {json.dumps(message)}\n}}'.encode()


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        (PREDICT, {"instances": [1.0, 2.0, 5.0]}, {"predictions": [2.5, 3.0, 4.5]}),
        (PREDICT, {"instances": [[1.0, 2.0], [3.0, 4.0]]}, {"predictions": [[2.5, 3.0], [3.5, 4.0]]}),
        (PREDICT, {"instances": [{"x": 1.0}, {"x": 2}]}, {"predictions": [2.5, 3.0]}),
        (PREDICT, {"inputs": [1.0, 2.0]}, {"outputs": [2.5, 3.0]}),
        (PREDICT, {"inputs": {"x": 1.0, "ignored": 3}}, {"outputs": 2.5}),
        (PREDICT, {"signature_name": "serving_default", "instances": [3.0, 4.0]}, {"predictions": [3.5, 4.0]}),
        ("/V1/models/half/versions/123:predict", {"instances": [1.0, 2.0]}, {"predictions": [2.5, 3.0]}),
        ("/v1/models/half/labels/Version_Label:predict", {"instances": [1.0, 2.0]}, {"predictions": [2.5, 3.0]}),
        (f"/v1/models/{ESCAPED}/labels/{ESCAPED}:predict", {"instances": [1.0]}, {"predictions": [2.5]}),
        (
            PREDICT,
            {"signature_name": "twice_fetched", "instances": [1.0, 2.0]},
            {"predictions": [{"p": 2.5, "q": 2.5}, {"p": 3.0, "q": 3.0}]},
        ),
        (
            PREDICT,
            {"signature_name": "add", "instances": [{"a": 1.0, "b": 2.0}]},
            {"predictions": [3.0]},
        ),
        (
            PREDICT,
            {"signature_name": "text", "inputs": ["a", {"b64": "AP8="}]},
            None,
        ),
    ],
)
def test_predict(server: ServerThread, target: str, body: dict[str, Any], expected: dict[str, Any] | None) -> None:
    reply = request(server, "POST", target, json.dumps(body))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    if expected is None:
        assert b'"a",\n            "\\u0000\xff"' in reply.body
        assert b'"b64": "AP8="' in reply.body
    else:
        assert reply.json == expected


def test_the_layout_is_tf_servings(server: ServerThread) -> None:
    reply = request(server, "POST", PREDICT, '{"instances": [1.0, 2.0, 5.0]}')
    assert reply.body == b'{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}'
    assert set(reply.headers) == {"content-type", "content-length", "date"}


@pytest.mark.parametrize(
    ("target", "body", "status", "message"),
    [
        (PREDICT, "", 400, "JSON Parse error: The document is empty"),
        (
            PREDICT,
            '{"signature_name": "nope", "instances": [1]}',
            400,
            'Serving signature name: "nope" not found in signature def',
        ),
        (PREDICT, '{"signature_name": "count", "inputs": {}}', 400, "Failed to get input map for signature: count"),
        (PREDICT, "{}", 400, "Missing 'inputs' or 'instances' key"),
        ("/v1/models/nope:predict", "{", 400, None),
        ("/v1/models/nope:predict", "{}", 404, "Servable not found for request: Latest(nope)"),
        ("/v1/models/half/versions/9:predict", "{}", 404, "Servable not found for request: Specific(half, 9)"),
        (
            "/v1/models/half/labels/canary:predict",
            '{"instances": ["x"]}',
            400,
            "Unrecognized servable version label: canary",
        ),
        ("/v1/models/half/versions/x:predict", "{}", 400, "Malformed request: POST /v1/models/half/versions/x:predict"),
        ("/v1/models/half:predict?x=1", "{}", 400, "Malformed request: POST /v1/models/half:predict?x=1"),
        ("/v1/models/lost:predict", '{"instances": [1]}', 503, "Model lost version 3 has no ready copy on Triton now."),
        (
            PREDICT,
            '{"signature_name": "broken", "inputs": {}}',
            501,
            "Signature broken cannot be served: input r is a resource.",
        ),
        (PREDICT, '{"instances": ["x", "y"]}', 400, None),
        (PREDICT, "instances = [1, 2]", 400, None),
        (PREDICT, '{"signature_name": 100}', 400, None),
    ],
)
def test_predict_refuses(server: ServerThread, target: str, body: str, status: int, message: str | None) -> None:
    reply = request(server, "POST", target, body)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/json")
    assert list(reply.json) == ["error"]
    if message is not None:
        assert reply.body == error(message)


@pytest.mark.parametrize("target", ["/v1/models/half", "/v1/models/half/labels/unknown"])
def test_status(server: ServerThread, target: str) -> None:
    reply = request(server, "GET", target)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == {
        "model_version_status": [
            {"version": "124", "state": "END", "status": {"error_code": "UNKNOWN", "error_message": "it failed"}},
            {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}},
        ]
    }


def test_status_of_one_version(server: ServerThread) -> None:
    rows = request(server, "GET", "/v1/models/half/versions/123").json["model_version_status"]
    assert [row["version"] for row in rows] == ["123"]


@pytest.mark.parametrize("target", ["/v1/models/half/metadata", "/v1/models/half/labels/Version_Label/metadata"])
def test_metadata(server: ServerThread, target: str) -> None:
    reply = request(server, "GET", target)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json["model_spec"] == {"name": "half", "signature_name": "", "version": "123"}
    signatures = reply.json["metadata"]["signature_def"]["signature_def"]
    assert sorted(signatures) == ["__saved_model_init_op", "serving_default"]
    assert signatures["serving_default"]["inputs"]["x"]["name"] == "x:0"


@pytest.mark.parametrize(
    ("target", "status", "message"),
    [
        ("/v1/models", 400, "Missing model name in request."),
        ("/v1/models/versions/3", 400, "Missing model name in request."),
        ("/v1/models/nope", 404, "Could not find any versions of model nope"),
        ("/v1/models/half?x=1", 404, "Could not find any versions of model half?x=1"),
        ("/v1/models/half/versions/9", 404, "Could not find version 9 of model half"),
        ("/v1/models/nope/metadata", 404, "Servable not found for request: Latest(nope)"),
        ("/v1/models/half/labels/x/metadata", 400, "Unrecognized servable version label: x"),
        ("/v1/models/half/", 400, "Malformed request: GET /v1/models/half/"),
        ("/v1/", 400, "Malformed request: GET /v1/"),
    ],
)
def test_reading_refuses(server: ServerThread, target: str, status: int, message: str) -> None:
    reply = request(server, "GET", target)
    assert (reply.status, reply.body) == (status, error(message))


@pytest.mark.parametrize(("method", "suffix"), [("POST", ":regress"), ("GET", ""), ("GET", "/metadata")])
def test_a_version_past_int64_has_an_empty_body(server: ServerThread, method: str, suffix: str) -> None:
    reply = request(server, method, f"/v1/models/half/versions/18446744073709551615{suffix}")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (400, b"", "application/json")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "HEAD"])
def test_other_methods_are_malformed(server: ServerThread, method: str) -> None:
    reply = request(server, method, PREDICT, "{}")
    assert reply.status == 400
    assert reply.body == (b"" if method == "HEAD" else error(f"Malformed request: {method} {PREDICT}"))


@pytest.mark.parametrize("target", ["/", "/healthz", "/v2x", "/v1", "/monitoring/prometheus/metrics"])
def test_other_paths_are_no_json(server: ServerThread, target: str) -> None:
    reply = request(server, "GET", target)
    assert (reply.status, reply.headers["content-type"], reply.headers["connection"]) == (404, "text/html", "close")
    assert b"<h1>404 Not Found</h1>" in reply.body


def test_methods_that_the_http_library_keeps(server: ServerThread) -> None:
    assert request(server, "TRACE", "/v1/models/half").status == 501


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": "http://a.example"}, 200), ({"Origin": "https://a.example"}, 200), ({"Origin": "a"}, 400), ({}, 400)],
)
def test_preflight(server: ServerThread, headers: dict[str, str], status: int) -> None:
    reply = request(server, "OPTIONS", PREDICT, headers=headers)
    assert (reply.status, reply.body) == (status, b"")
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.fixture(scope="module")
def cors_server() -> Iterator[ServerThread]:
    server = ServerThread(cors=True)
    server.publish(half_plus_two())
    yield server
    server.close()


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/v1/models/half", 200),
        ("GET", "/v1/models/nope", 404),
        ("POST", PREDICT, 400),
        ("GET", "/v1/models/half/versions/18446744073709551615", 400),
        ("OPTIONS", PREDICT, 200),
    ],
)
def test_cors(cors_server: ServerThread, method: str, target: str, status: int) -> None:
    reply = request(cors_server, method, target, headers={"Origin": "http://a.example"})
    assert reply.status == status
    assert {name: value for name, value in reply.headers.items() if name.startswith("access-control")} == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "POST, GET",
        "access-control-allow-headers": "Content-Type",
    }


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip, identity"])
def test_gzip_requests(server: ServerThread, encoding: str) -> None:
    body = gzip.compress(b'{"instances": [1.0, 2.0, 5.0]}')
    reply = request(server, "POST", PREDICT, body, {"Content-Encoding": encoding})
    assert reply.json == {"predictions": [2.5, 3.0, 4.5]}


@pytest.mark.parametrize(
    "body", [b"no gzip", gzip.compress(b'{"instances": [1.0]}', mtime=0)[:-9]], ids=["not gzip", "cut"]
)
def test_corrupt_gzip_reads_as_empty(server: ServerThread, body: bytes) -> None:
    reply = request(server, "POST", PREDICT, body, {"Content-Encoding": "gzip"})
    assert (reply.status, reply.body) == (400, error("JSON Parse error: The document is empty"))


def test_inflation_is_bounded() -> None:
    assert inflate(gzip.compress(bytes(1000)), limit=1000) == bytes(1000)
    assert inflate(gzip.compress(bytes(1001)), limit=1000) == b""
    assert inflate(zlib.compress(b"no gzip header")) == b""


def test_the_encoding_is_matched_with_its_case(server: ServerThread) -> None:
    reply = request(server, "POST", PREDICT, '{"instances": [1.0]}', {"Content-Encoding": "GZIP"})
    assert reply.status == 200


def test_chunked_bodies_and_kept_connections(server: ServerThread) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    for _ in range(3):
        chunks = iter([b'{"instances":', b" [1.0,", b" 2.0]}"])
        connection.request("POST", PREDICT, chunks, {"Content-Type": "text/plain"}, encode_chunked=True)
        assert json.loads(connection.getresponse().read()) == {"predictions": [2.5, 3.0]}
    connection.close()


def test_timeout() -> None:
    server = ServerThread(timeout_in_ms=50)
    try:
        server.publish(half_plus_two())
        server.hold(True)
        reply = request(server, "POST", PREDICT, '{"instances": [1.0]}')
        assert (reply.status, reply.body) == (504, error("Timed out waiting for notification"))
    finally:
        server.close()


def test_requests_in_flight_finish_on_stop() -> None:
    server = ServerThread()
    server.publish(half_plus_two())
    server.hold(True)
    replies: list[Reply] = []
    client = threading.Thread(
        target=lambda: replies.append(request(server, "POST", PREDICT, '{"instances": [1.0]}')),
    )
    client.start()
    until(lambda: bool(server.leg.calls))
    release = threading.Timer(0.3, server.hold, [False])
    release.start()
    server.close()
    client.join(10)
    release.join()
    assert [reply.status for reply in replies] == [200]


def test_a_taken_port_is_an_error(server: ServerThread) -> None:
    async def start() -> None:
        await RestServer(server.core).start("127.0.0.1", server.rest_port)

    with pytest.raises(Unavailable, match="Address already in use"):
        server.run(start)
