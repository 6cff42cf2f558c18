from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from model_repo_sync import model_schema
from model_repo_sync.model_schema import SchemaError

SCHEMA = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}, {"name": "s", "datatype": "BYTES", "shape": [-1]}],
    "outputs": [{"name": "y", "datatype": "INT64", "shape": [-1, 2]}],
}
APPLIED = """
input {{ name: "x" data_type: TYPE_FP32 dims: [{x}] }}
input {{ name: "s" data_type: TYPE_STRING {s} }}
output {{ name: "y" data_type: TYPE_INT64 dims: [{y}] }}
"""


def applied(document: Any, text: str) -> Any:
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    model_schema.parse(json.dumps(document).encode(), "s.json").apply(config)
    return config


@pytest.mark.parametrize(
    ("batch", "dims"),
    [(0, {"x": "-1, 3", "s": "dims: [-1]", "y": "-1, 2"}), (8, {"x": "3", "s": "", "y": "2"})],
)
def test_a_schema_replaces_inputs_and_outputs(batch: int, dims: dict[str, str]) -> None:
    head = f'backend: "b" max_batch_size: {batch} '
    config = applied(SCHEMA, head + 'input { name: "old" data_type: TYPE_BOOL dims: 1 }')
    assert config == text_format.Parse(head + APPLIED.format(**dims), model_config_pb2.ModelConfig())


def test_a_schema_without_outputs_leaves_those_of_the_model() -> None:
    text = 'output { name: "y" data_type: TYPE_BOOL dims: 1 }'
    assert applied({"inputs": []}, text) == text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize("shape", [[], [4], [4, -1]])
def test_a_batching_model_needs_a_batch_dimension(shape: list[int]) -> None:
    with pytest.raises(SchemaError, match=r"^Conflicting model configuration: 'x' has the shape \["):
        applied({"inputs": [{"name": "x", "datatype": "FP32", "shape": shape}]}, "max_batch_size: 4")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "The schema s.json is no JSON: "),
        ("\ud800", "The schema s.json is no JSON: "),
        ("[]", "The schema s.json is no JSON object."),
        ('{"inputs": 7}', "The schema s.json has inputs that are no list."),
        ('{"inputs": [7]}', "The schema s.json has an entry without a name in its inputs."),
        ('{"outputs": [{"name": ""}]}', "The schema s.json has an entry without a name in its outputs."),
        (
            '{"inputs": [{"name": "x", "datatype": "FP31", "shape": []}]}',
            "The schema s.json gives 'x' the datatype 'FP31', which Triton does not have.",
        ),
        (
            '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [-2]}]}',
            "The schema s.json gives 'x' a shape that is no list of sizes or -1.",
        ),
    ],
)
def test_schemas_that_cannot_be_used(text: str, sentence: str) -> None:
    with pytest.raises(SchemaError) as error:
        model_schema.parse(text.encode("utf-8", "surrogatepass"), "s.json")
    assert str(error.value).startswith(sentence)
