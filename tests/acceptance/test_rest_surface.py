"""TF Serving's REST surface over a real Triton."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.bridge_server import BridgeServer

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("target", "body", "answer"),
    [
        ("numbered", {"instances": [1.0, 2.0, 5.0]}, '{\n    "predictions": [123.5, 124.0, 125.5\n    ]\n}'),
        ("numbered", {"instances": [{"x": 1}, {"x": 5}]}, '{\n    "predictions": [123.5, 125.5\n    ]\n}'),
        (
            "numbered/versions/1",
            {"inputs": [1.0, 2.0]},
            '{\n    "outputs": [\n        1.5,\n        2.0\n    ]\n}',
        ),
        ("numbered/labels/stable", {"inputs": {"x": 3.0}}, '{\n    "outputs": 2.5\n}'),
        (
            "numbered",
            {"signature_name": "regress_x2_to_y3", "instances": [[1.0], [2.0]]},
            '{\n    "predictions": [[3.5], [4.0]\n    ]\n}',
        ),
    ],
)
def test_predict(zoo: BridgeServer, target: str, body: Any, answer: str) -> None:
    reply = zoo.request("POST", f"/v1/models/{target}:predict", json.dumps(body))
    assert (reply.status, reply.body.decode()) == (200, answer)


def test_predict_several_outputs(zoo: BridgeServer) -> None:
    body = json.dumps({"instances": ["apple", {"b64": "Yv/+"}]})
    reply = zoo.request("POST", "/v1/models/strings:predict", body)
    assert reply.status == 200
    rows = json.loads(reply.body.decode("latin-1"))["predictions"]
    assert rows == [{"ids": 0, "length": 5, "words": "apple"}, {"ids": 1, "length": 3, "words": "b\xff\xfe"}]


@pytest.mark.parametrize(
    ("target", "body", "status", "error"),
    [
        ("no", '{"instances": [1]}', 404, "Servable not found for request: Latest(no)"),
        ("numbered/versions/7", '{"instances": [1]}', 404, "Servable not found for request: Specific(numbered, 7)"),
        ("numbered/labels/no", '{"instances": [1]}', 400, "Unrecognized servable version label: no"),
        ("numbered", "", 400, "JSON Parse error: The document is empty"),
        ("numbered", "{}", 400, "Missing 'inputs' or 'instances' key"),
        (
            "numbered",
            '{"signature_name": "no", "instances": [1]}',
            400,
            'Serving signature name: "no" not found in signature def',
        ),
        (
            "counter",
            '{"signature_name": "get_counter", "inputs": {}}',
            400,
            "Failed to get input map for signature: get_counter",
        ),
        (
            "numbered",
            '{"instances": ["a"]}',
            400,
            "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: \"a\" Type: String "
            "is not of expected type: float",
        ),
    ],
)
def test_predict_refuses(zoo: BridgeServer, target: str, body: str, status: int, error: str) -> None:
    reply = zoo.request("POST", f"/v1/models/{target}:predict", body)
    assert (reply.status, reply.error) == (status, error)


def test_a_failing_op_keeps_its_text(zoo: BridgeServer) -> None:
    reply = zoo.request("POST", "/v1/models/failures:predict", '{"instances": [99.0]}')
    assert reply.status == 400
    assert "x too big" in reply.error


def test_status(zoo: BridgeServer) -> None:
    rows = zoo.request("GET", "/v1/models/numbered").json["model_version_status"]
    status = {"error_code": "OK", "error_message": ""}
    assert rows == [
        {"version": "123", "state": "AVAILABLE", "status": status},
        {"version": "1", "state": "AVAILABLE", "status": status},
    ]
    one = zoo.request("GET", "/v1/models/numbered/versions/1").json["model_version_status"]
    assert one == rows[1:]
    assert zoo.request("GET", "/v1/models/no").status == 404


def test_metadata(zoo: BridgeServer) -> None:
    metadata = zoo.request("GET", "/v1/models/numbered/labels/stable/metadata").json
    assert metadata["model_spec"] == {"name": "numbered", "signature_name": "", "version": "1"}
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["x"]["name"] == "x:0"
    assert signature["method_name"] == "tensorflow/serving/predict"
