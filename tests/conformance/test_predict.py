"""Rows of Predict, GetModelMetadata and GetModelStatus that no other test over a real server asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient

pytestmark = pytest.mark.integration

INVALID = "INVALID_ARGUMENT"
TWO = {"dtype": "float32", "values": 2.0}
EXAMPLE = "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\x00\x00\x00@"
"""A serialized tensorflow.Example whose float feature x is 2."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("rows")
    kinds = ("counter", "defaults", "half_plus_two", "strings")
    entries = [Entry(kind, savedmodels.make(kind, directory / kind / "123").parent) for kind in kinds]
    config = model_config.write(directory / "models.config", *entries)
    with BridgeServer(directory / "bridge", f"--model_config_file={config}") as server:
        yield server


def metadata(server: BridgeServer, model: str) -> Any:
    """The SignatureDefs of a model, as REST shows them."""
    return server.request("GET", f"/v1/models/{model}/metadata").json["metadata"]["signature_def"]["signature_def"]


@pytest.mark.parametrize(
    ("signature", "inputs", "total"),
    [
        ("serving_default", {"a": TWO}, 7.0),
        ("serving_default", {"a": TWO, "b": TWO}, 4.0),
        ("bare", {"a": TWO, "b": TWO}, 4.0),
    ],
)
def test_missing_inputs_come_from_the_signature(
    server: BridgeServer, client: OfficialClient, signature: str, inputs: Any, total: float
) -> None:
    spec = {"name": "defaults", "signature": signature}
    answer = client.ask(server.grpc, "predict", spec=spec, inputs=inputs)
    assert answer["outputs"]["total"]["values"] == total
    assert answer["spec"] == {"name": "defaults", "version": 123, "signature": signature}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an input without default": (
        {"spec": {"name": "defaults"}, "inputs": {"b": TWO}},
        "Signature input alias: a(feed name: a:0) not found in request and no default value provided. Inputs expected "
        "to be in the request {b}, or default input alias set: b",
    ),
    "a name beside the default": (
        {"spec": {"name": "defaults"}, "inputs": {"a": TWO, "z": TWO}},
        "Inputs contains invalid name. Used request inputs: a, request input: a,z",
    ),
    "too many in spite of a default": (
        {"spec": {"name": "defaults"}, "inputs": {"a": TWO, "b": TWO, "c": TWO}},
        "input size does not match signature: 3!=2 len({a,b,c}) != len({a,b}). Sent extra: {c}. "
        "Missing but required: {}.",
    ),
    "too few without a default": (
        {"spec": {"name": "defaults", "signature": "bare"}, "inputs": {"a": TWO}},
        "input size does not match signature: 1!=2 len({a}) != len({a,b}). Sent extra: {}. Missing but required: {b}.",
    ),
    "a placeholder that nobody feeds": (
        {"spec": {"name": "defaults", "signature": "unfed"}, "inputs": {"a": TWO}},
        "You must feed a value for placeholder tensor 'b' with dtype float\n\t [[{{node b}}]]",
    ),
    "the second of two arguments": (
        {"spec": {"name": "defaults"}, "inputs": {"a": TWO, "b": {"dtype": "bool", "values": True}}},
        "Expects arg[1] to be float but bool is provided",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_predict_refuses(server: BridgeServer, client: OfficialClient, case: str) -> None:
    question, details = REFUSED[case]
    assert client.ask(server.grpc, "predict", **question) == {"code": INVALID, "details": details}


def test_version_0_is_a_version(server: BridgeServer, client: OfficialClient) -> None:
    answer = client.predict(server.grpc, [1.0], name="half_plus_two", version=0)
    assert answer == {"code": "NOT_FOUND", "details": "Servable not found for request: Specific(half_plus_two, 0)"}


@pytest.mark.parametrize(("signature", "output"), [("classify_x_to_y", "scores"), ("regress_x_to_y", "outputs")])
def test_predict_feeds_examples_as_strings(
    server: BridgeServer, client: OfficialClient, signature: str, output: str
) -> None:
    inputs = {"inputs": {"dtype": "string", "values": [EXAMPLE, EXAMPLE]}}
    answer = client.ask(server.grpc, "predict", spec={"name": "half_plus_two", "signature": signature}, inputs=inputs)
    assert answer["outputs"][output]["values"] == [[3.0], [3.0]]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"inputs": {"a": 2.0, "b": 2.0, "ignored": 1}}, 200, None),
        ({"inputs": {"a": 2.0}}, 400, "Missing named input: b in 'inputs' object."),
        (
            {"instances": [{"a": 2.0}]},
            400,
            "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"a\": 2.0\n} keys must be equal "
            "to: a,b",
        ),
    ],
)
def test_rest_does_not_fill_in_defaults(server: BridgeServer, body: Any, status: int, error: str | None) -> None:
    answer = server.request("POST", "/v1/models/defaults:predict", json.dumps(body))
    assert answer.status == status
    assert answer.json == ({"outputs": 4.0} if error is None else {"error": error})


def test_metadata_shows_defaults_references_and_the_init_op(server: BridgeServer) -> None:
    [default] = metadata(server, "defaults")["serving_default"]["defaults"].items()
    assert default[0] == "b"
    assert (default[1]["dtype"], default[1]["float_val"]) == ("DT_FLOAT", [5])
    counter = metadata(server, "counter")
    assert counter["get_counter"]["outputs"]["output"]["dtype"] == "DT_FLOAT_REF"
    assert counter["get_counter"]["inputs"] == {}
    init = metadata(server, "strings")["__saved_model_init_op"]
    assert init["outputs"]["__saved_model_init_op"] == {
        "dtype": "DT_INVALID",
        "tensor_shape": {"dim": [], "unknown_rank": True},
        "name": "NoOp",
    }
    assert (init["inputs"], init["method_name"]) == ({}, "")


def test_a_reference_dtype_is_a_plain_one_in_responses(server: BridgeServer, client: OfficialClient) -> None:
    spec = {"name": "counter", "signature": "reset_counter"}
    assert client.ask(server.grpc, "predict", spec=spec)["outputs"]["output"]["dtype"] == 1


@pytest.mark.parametrize(
    ("spec", "details"),
    [
        ({}, "ModelSpec has no name specified."),
        ({"name": "no", "label": "l"}, "Unrecognized servable version label: l"),
    ],
)
def test_metadata_refuses(server: BridgeServer, client: OfficialClient, spec: Any, details: str) -> None:
    answer = client.ask(server.grpc, "metadata", spec=spec, fields=["signature_def"])
    assert answer == {"code": INVALID, "details": details}
