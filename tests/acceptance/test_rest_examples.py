"""The REST form of Classify and Regress over a real server on a real Triton."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import savedmodels
from tests.support.bridge_server import BridgeServer, HttpAnswer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    """A server of signatures on Examples with the float features x and y, whose default is 0."""
    directory = tmp_path_factory.mktemp("rest_heads")
    savedmodels.make("heads", directory / "heads" / "123")
    flags = ("--model_name=heads", f"--model_base_path={directory}/heads")
    with BridgeServer(directory / "bridge", *flags) as server:
        yield server


def post(server: BridgeServer, verb: str, body: Any) -> HttpAnswer:
    text = body if isinstance(body, str) else json.dumps(body)
    return server.request("POST", f"/v1/models/heads:{verb}", text)


ANSWERED: dict[str, tuple[str, dict[str, Any], str]] = {
    "classify": (
        "classify",
        {"examples": [{"x": 0.25}, {"x": [1.0]}]},
        '[[["a", -0.25], ["b", 0.0], ["c", 0.25]], [["a", -1.0], ["b", 0.0], ["c", 1.0]]\n    ]',
    ),
    "classify without labels": (
        "classify",
        {"signature_name": "scores", "examples": [{}]},
        '[[["", -0.0], ["", 0.0], ["", 0.0]]\n    ]',
    ),
    "regress": (
        "regress",
        {"signature_name": "sum", "examples": [{"x": 1.0, "y": 0.5}, {"x": 1e10}]},
        "[1.5, 1e+10]",
    ),
    "context": (
        "regress",
        {"signature_name": "sum", "context": {"x": 3.0}, "examples": [{"y": 0.5}, {"x": 1.0}]},
        "[3.5, 1.0]",
    ),
    "NaN and Infinity": (
        "regress",
        {"signature_name": "flat", "examples": [{"x": float("nan")}, {"x": float("inf")}, {"x": float("-inf")}]},
        "[NaN, Infinity, -Infinity]",
    ),
    "features of every kind": (
        "regress",
        {
            "signature_name": "flat",
            "examples": [{"x": 2.5, "n": [1, True, False], "s": ["foo", {"b64": "aGVsbG8="}], "none": []}],
        },
        "[2.5]",
    ),
}


@pytest.mark.parametrize("case", ANSWERED)
def test_results_in_tf_servings_layout(server: BridgeServer, case: str) -> None:
    verb, body, results = ANSWERED[case]
    answer = post(server, verb, body)
    assert (answer.status, answer.body.decode()) == (200, f'{{\n    "results": {results}\n}}')


ALIKE: dict[str, tuple[str, int, str]] = {
    "empty": ("", 400, "JSON Parse error: The document is empty"),
    "no object": ("[1]", 400, "JSON Value: [1] Is not object"),
    "signature name": (
        '{"signature_name": [], "examples": []}',
        400,
        'JSON Value: {\n    "signature_name": [],\n    "examples": []\n} not formatted correctly. '
        "'signature_name' key must be a string value.",
    ),
    "no examples": (
        '{"instances": 1}',
        400,
        "JSON Value: {\n    \"instances\": 1\n} When method is classify, key 'examples' is expected and was not found",
    ),
    "examples object": (
        '{"examples": {}}',
        400,
        "JSON Value: {\n    \"examples\": {}\n} Expecting 'examples' value to be an list/array",
    ),
    "empty examples": (
        '{"examples": []}',
        400,
        "JSON Value: {\n    \"examples\": []\n} 'examples' value is an empty array",
    ),
    "example list": ('{"examples": [[1]]}', 400, "Example must be JSON object but got JSON Array"),
    "context list": ('{"context": [1], "examples": 1}', 400, "Example must be JSON object but got JSON Array"),
    "null": ('{"examples": [{"f": [10, null]}]}', 400, "Feature: f has element with unexpected JSON type: Null"),
    "list in list": (
        '{"examples": [{"f": [[10], 20]}]}',
        400,
        "Feature: f has element with unexpected JSON type: Array",
    ),
    "object": ('{"examples": [{"f": [{"a": 1}]}]}', 400, "Feature: f has element with unexpected JSON type: Object"),
    "mixed numbers": (
        '{"examples": [{"f": [10, 10.0]}]}',
        400,
        "Unexpected element type in feature: f expecting type: int64",
    ),
    "uint64": (
        '{"examples": [{"f": [20, 18446744073709551603]}]}',
        400,
        "Feature: f has uint64_t element. Only int64_t is supported.",
    ),
    "bad base64": ('{"examples": [{"f": {"b64": "%"}}]}', 400, "Unable to base64 decode"),
    "unknown signature": (
        '{"signature_name": "no", "examples": [{}]}',
        400,
        "No signature was found with the name: no",
    ),
    "two inputs": ('{"signature_name": "two_inputs", "examples": [{}]}', 400, "Expected one input Tensor."),
}
"""What both verbs refuse alike. The body is read before the model is looked up."""


@pytest.mark.parametrize("verb", ["classify", "regress"])
@pytest.mark.parametrize("case", ALIKE)
def test_both_refuse(server: BridgeServer, verb: str, case: str) -> None:
    body, status, message = ALIKE[case]
    answer = post(server, verb, body)
    assert (answer.status, answer.error) == (status, message)


@pytest.mark.parametrize(
    ("target", "body", "status", "message"),
    [
        ("no:classify", "{", 400, "JSON Parse error: Missing a name for object member. at offset: 1"),
        ("no:classify", '{"examples": [{}]}', 404, "Servable not found for request: Latest(no)"),
        ("heads/versions/9:regress", '{"examples": [{}]}', 404, "Servable not found for request: Specific(heads, 9)"),
        ("heads/labels/l:regress", '{"examples": [{}]}', 400, "Unrecognized servable version label: l"),
        (
            "heads:regress",
            '{"signature_name": "wide", "examples": [{}]}',
            400,
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got [1,3]",
        ),
        (
            "heads:regress",
            '{"signature_name": "flat", "examples": [{"x": 1}]}',
            400,
            "Name: <unknown>, Key: x, Index: 0.  Data types don't match. Data type: int64 but expected type: float"
            "\n\t [[{{node ParseExample/ParseExampleV2}}]]",
        ),
    ],
)
def test_errors(server: BridgeServer, target: str, body: str, status: int, message: str) -> None:
    answer = server.request("POST", f"/v1/models/{target}", body)
    assert (answer.status, answer.error) == (status, message)
