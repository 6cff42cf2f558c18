"""TF Serving's gRPC surface over a real Triton, as the official client sees it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.bridge_server import BridgeServer
from tests.support.official_client import OfficialClient

pytestmark = pytest.mark.integration

AVAILABLE = 30
DT_FLOAT = 1
X = {"x": {"dtype": "float32", "values": [1.0, 2.0, 5.0]}}


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        ({"name": "numbered"}, 123),
        ({"name": "numbered", "version": 1}, 1),
        ({"name": "numbered", "version": 123}, 123),
        ({"name": "numbered", "label": "stable"}, 1),
        ({"name": "numbered", "label": "canary"}, 123),
    ],
)
@pytest.mark.parametrize("encoding", ["content", "typed"])
def test_a_version_is_chosen(
    zoo: BridgeServer, client: OfficialClient, spec: dict[str, Any], version: int, encoding: str
) -> None:
    answer = client.ask(zoo.grpc, "predict", spec=spec, inputs={"x": {**X["x"], "as": encoding}})
    values = [x / 2 + version for x in (1.0, 2.0, 5.0)]
    assert answer == {
        "spec": {"name": "numbered", "version": version, "signature": "serving_default"},
        "outputs": {"y": {"dtype": DT_FLOAT, "shape": [3], "values": values, "float_val": values, "content": 0}},
    }


@pytest.mark.parametrize("signature", ["serving_default", "unknown_rank"])
@pytest.mark.parametrize(
    ("shape", "values", "doubled"),
    [
        ([3], [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]),
        ([], 1.5, 3.0),
        ([2, 3, 4], [[[0.5] * 4] * 3] * 2, [[[1.0] * 4] * 3] * 2),
        ([0, 1], [], []),
        ([1, 1], [[7.0]], [[14.0]]),
    ],
)
def test_any_shape_is_fed(
    zoo: BridgeServer, client: OfficialClient, signature: str, shape: list[int], values: Any, doubled: Any
) -> None:
    """The input is declared `[1]`, or of unknown rank; TF Serving checks neither."""
    spec = {"name": "declared_one", "signature": signature}
    x = {"dtype": "float32", "values": values, "shape": shape}
    y = client.ask(zoo.grpc, "predict", spec=spec, inputs={"x": x}, filter=["y"])["outputs"]["y"]
    assert (y["shape"], y["values"]) == (shape, doubled)


def test_strings_hold_any_bytes(zoo: BridgeServer, client: OfficialClient) -> None:
    words = ["apple", "b\xff\xfe", "a\0b", "", "na\xc3\xafve"]
    answer = client.ask(
        zoo.grpc, "predict", spec={"name": "strings"}, inputs={"words": {"dtype": "string", "values": words}}
    )
    assert answer["outputs"]["words"]["values"] == words
    assert answer["outputs"]["length"]["values"] == [5, 3, 3, 0, 6]
    ids = answer["outputs"]["ids"]["values"]
    assert [ids[0], ids[1], ids[4]] == [0, 1, 2], "the words of the vocabulary"
    assert {ids[2], ids[3]} <= {3, 4}, "the others"


def test_signatures_without_inputs_share_their_state(zoo: BridgeServer, client: OfficialClient) -> None:
    def call(signature: str, **inputs: Any) -> float:
        spec = {"name": "counter", "signature": signature}
        output = client.ask(zoo.grpc, "predict", spec=spec, inputs=inputs)["outputs"]["output"]
        assert output["shape"] == []
        return float(output["values"])

    assert call("reset_counter") == 0
    assert [call("incr_counter"), call("incr_counter"), call("get_counter")] == [1, 2, 2]
    assert call("incr_counter_by", delta={"dtype": "float32", "values": 2.5}) == 4.5
    assert call("get_counter") == 4.5


@pytest.mark.parametrize(("chosen", "keys"), [((), ["again", "same"]), (("again",), ["again"]), (("same",), ["same"])])
def test_one_tensor_under_two_aliases(
    zoo: BridgeServer, client: OfficialClient, chosen: tuple[str, ...], keys: list[str]
) -> None:
    answer = client.predict(zoo.grpc, [1.0, -2.0], filter=chosen, name="dtypes", signature="float")
    assert sorted(answer["outputs"]) == keys
    assert all(output["values"] == [1.0, -2.0] for output in answer["outputs"].values())


def test_a_wrong_tensor_info_is_not_believed(zoo: BridgeServer, client: OfficialClient) -> None:
    answer = client.predict(zoo.grpc, [1.0, 2.0, 5.0], name="wrong_tensor_info")
    assert answer["outputs"]["y"]["values"] == [2.5, 3.0, 4.5]
    [warning] = zoo.log_lines("wrong_tensor_info", "declares input")
    assert 'declares input "x" as int32, but "x:0" is float in the graph' in warning


FLOAT = {"dtype": "float32", "values": [1.0]}
NUMBERED = {"name": "numbered"}
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no spec": ({"spec": None}, "INVALID_ARGUMENT", "Missing ModelSpec"),
    "no name": ({"spec": {"version": 1}}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "unknown model": ({"spec": {"name": "no"}}, "NOT_FOUND", "Servable not found for request: Latest(no)"),
    "unknown version": (
        {"spec": {"name": "numbered", "version": 2}},
        "NOT_FOUND",
        "Servable not found for request: Specific(numbered, 2)",
    ),
    "version of no model": (
        {"spec": {"name": "no", "version": -7}},
        "NOT_FOUND",
        "Servable not found for request: Specific(no, -7)",
    ),
    "unknown label": (
        {"spec": {"name": "numbered", "label": "no"}},
        "INVALID_ARGUMENT",
        "Unrecognized servable version label: no",
    ),
    "label of a version that never came": (
        {"spec": {"name": "numbered", "label": "future"}},
        "INVALID_ARGUMENT",
        "Unrecognized servable version label: future",
    ),
    "label of no model": (
        {"spec": {"name": "no", "label": "stable"}},
        "INVALID_ARGUMENT",
        "Unrecognized servable version label: stable",
    ),
    "unknown signature": (
        {"spec": {"name": "numbered", "signature": "no"}},
        "FAILED_PRECONDITION",
        'Serving signature key "no" not found.',
    ),
    "too few inputs": (
        {"inputs": {}},
        "INVALID_ARGUMENT",
        "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}. Missing but required: {x}.",
    ),
    "too many inputs": (
        {"inputs": {"x": FLOAT, "b": FLOAT, "a": FLOAT}},
        "INVALID_ARGUMENT",
        "input size does not match signature: 3!=1 len({a,b,x}) != len({x}). Sent extra: {a,b}. "
        "Missing but required: {}.",
    ),
    "another input": (
        {"inputs": {"z": FLOAT}},
        "INVALID_ARGUMENT",
        "Signature input alias: x(feed name: x:0) not found in request and no default value provided. "
        "Inputs expected to be in the request {z}, or default input alias set: ",
    ),
    "unknown output": (
        {"filter": ["no"]},
        "INVALID_ARGUMENT",
        "output tensor alias not found in signature: no Outputs expected to be in the set {y}.",
    ),
    "repeated output": ({"filter": ["y", "y"]}, "INVALID_ARGUMENT", "duplicate output tensor alias: y"),
    "wrong dtype": (
        {"inputs": {"x": {"dtype": "int32", "values": [1]}}},
        "INVALID_ARGUMENT",
        "Expects arg[0] to be float but int32 is provided",
    ),
    "string for a number": (
        {"inputs": {"x": {"dtype": "string", "values": ["1"]}}},
        "INVALID_ARGUMENT",
        "Expects arg[0] to be float but string is provided",
    ),
    "dtype of the graph, not of TensorInfo": (
        {"spec": {"name": "wrong_tensor_info"}, "inputs": {"x": {"dtype": "int32", "values": [1]}}},
        "INVALID_ARGUMENT",
        "Expects arg[0] to be float but int32 is provided",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_predict_refuses_as_tf_serving_does(zoo: BridgeServer, client: OfficialClient, case: str) -> None:
    question, code, details = REFUSED[case]
    answer = client.ask(zoo.grpc, "predict", **{"spec": NUMBERED, "inputs": X, **question})
    assert answer == {"code": code, "details": details}


def test_a_failing_op_keeps_its_code_and_text(zoo: BridgeServer, client: OfficialClient) -> None:
    answer = client.predict(zoo.grpc, [99.0], name="failures")
    assert answer["code"] == "INVALID_ARGUMENT"
    assert "x too big" in answer["details"]
    assert "{{node " in answer["details"]
    assert not answer["details"].startswith(("tf_status", "["))
    assert client.predict(zoo.grpc, [1.0], name="failures")["outputs"]["y"]["values"] == [1.0]


def test_metadata_shows_the_whole_signature_map(zoo: BridgeServer, client: OfficialClient) -> None:
    spec = {"name": "numbered", "label": "stable", "signature": "ignored"}
    assert client.ask(zoo.grpc, "metadata", spec=spec, fields=["signature_def"]) == {
        "spec": {"name": "numbered", "version": 1, "signature": ""},
        "keys": ["signature_def"],
        "signatures": ["classify_x_to_y", "regress_x2_to_y3", "regress_x_to_y", "regress_x_to_y2", "serving_default"],
        "inputs": {"x": "x:0"},
    }


@pytest.mark.parametrize(
    ("question", "code", "details"),
    [
        ({"fields": ["signature_def"]}, "INVALID_ARGUMENT", "Missing ModelSpec"),
        ({"spec": NUMBERED}, "INVALID_ARGUMENT", "GetModelMetadataRequest must specify at least one metadata_field"),
        (
            {"spec": NUMBERED, "fields": ["signature_def", "no"]},
            "INVALID_ARGUMENT",
            "Metadata field no is not supported",
        ),
        (
            {"spec": {"name": "no"}, "fields": ["signature_def"]},
            "NOT_FOUND",
            "Servable not found for request: Latest(no)",
        ),
    ],
)
def test_metadata_refuses(
    zoo: BridgeServer, client: OfficialClient, question: dict[str, Any], code: str, details: str
) -> None:
    assert client.ask(zoo.grpc, "metadata", **question) == {"code": code, "details": details}


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ({"name": "numbered"}, {"rows": [[123, AVAILABLE, 0, ""], [1, AVAILABLE, 0, ""]]}),
        ({"name": "numbered", "version": 1}, {"rows": [[1, AVAILABLE, 0, ""]]}),
        ({"name": "numbered", "label": "no"}, {"rows": [[123, AVAILABLE, 0, ""], [1, AVAILABLE, 0, ""]]}),
        (None, {"code": "INVALID_ARGUMENT", "details": "Missing ModelSpec"}),
        ({}, {"code": "NOT_FOUND", "details": "Could not find any versions of model "}),
        ({"name": "no"}, {"code": "NOT_FOUND", "details": "Could not find any versions of model no"}),
        (
            {"name": "numbered", "version": 9},
            {"code": "NOT_FOUND", "details": "Could not find version 9 of model numbered"},
        ),
    ],
)
def test_status(zoo: BridgeServer, client: OfficialClient, spec: dict[str, Any] | None, answer: Any) -> None:
    assert client.ask(zoo.grpc, "status", spec=spec) == answer
