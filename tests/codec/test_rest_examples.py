from __future__ import annotations

import json
import math
from typing import Any

import pytest

from bridge.codec.rest_examples import parse_examples_body
from bridge.errors import InvalidArgument
from model_repo_sync.protos.tensorflow.example_pb2 import Example


def features(data: bytes | memoryview) -> dict[str, tuple[str | None, list[Any]]]:
    """The kind and the values of each feature of a serialized Example."""
    result = {}
    for name, feature in Example.FromString(bytes(data)).features.feature.items():
        kind = feature.WhichOneof("kind")
        result[name] = (kind, list(getattr(feature, kind).value) if kind else [])
    return result


def parsed(examples: Any, **more: Any) -> list[dict[str, Any]]:
    body = json.dumps({"examples": examples, **more}).encode()
    return [features(item) for item in parse_examples_body(body).examples.items]


def test_lists_and_scalars() -> None:
    examples = [{"names": ["foo", "bar"], "ratings": [8.0, 9.0], "age": 20}, {"names": ["baz"], "ratings": 6.0}]
    assert parsed(examples) == [
        {
            "names": ("bytes_list", [b"foo", b"bar"]),
            "ratings": ("float_list", [8.0, 9.0]),
            "age": ("int64_list", [20]),
        },
        {"names": ("bytes_list", [b"baz"]), "ratings": ("float_list", [6.0])},
    ]


def test_context_and_every_kind() -> None:
    body = (
        b'{"signature_name": "s", "context": {"query": "pizza", "location": ["sfo"]}, "examples": '
        b'[{"names": ["foo", {"b64": "aGVsbG8="}], "ratings": [NaN, Infinity, -Infinity], "mix": [1, true, false]}]}'
    )
    request = parse_examples_body(body)
    assert request.signature_name == "s"
    assert features(request.examples.context or b"") == {
        "query": ("bytes_list", [b"pizza"]),
        "location": ("bytes_list", [b"sfo"]),
    }
    [example] = [features(item) for item in request.examples.items]
    assert example["names"] == ("bytes_list", [b"foo", b"hello"])
    assert example["mix"] == ("int64_list", [1, 1, 0])
    nan, *infinities = example["ratings"][1]
    assert math.isnan(nan)
    assert infinities == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("value", "feature"),
    [
        ([], (None, [])),
        (-(2**63), ("int64_list", [-(2**63)])),
        (2**63 - 1, ("int64_list", [2**63 - 1])),
        (-(2**63) - 1, ("float_list", [-(2.0**63)])),
        (2**64, ("float_list", [2.0**64])),
        (1e39, ("float_list", [math.inf])),
        ({"b64": ""}, ("bytes_list", [b""])),
        ("ü\0", ("bytes_list", ["ü\0".encode()])),
        (True, ("int64_list", [1])),
    ],
)
def test_features(value: Any, feature: tuple[str | None, list[Any]]) -> None:
    assert parsed([{"f": value}]) == [{"f": feature}]


def test_the_last_of_repeated_features_counts_and_the_first_of_repeated_keys() -> None:
    body = b'{"examples": [{"f": 1, "f": 2.5}], "examples": [], "signature_name": "a", "signature_name": 1}'
    request = parse_examples_body(body)
    assert request.signature_name == "a"
    assert [features(item) for item in request.examples.items] == [{"f": ("float_list", [2.5])}]


def test_every_value_of_a_repeated_feature_is_checked() -> None:
    with pytest.raises(InvalidArgument, match=r"^Feature: f has element with unexpected JSON type: Null$"):
        parse_examples_body(b'{"examples": [{"f": null, "f": 2.5}]}')


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.5, 2], "Unexpected element type in feature: f expecting type: float"),
        ([1, 2.5], "Unexpected element type in feature: f expecting type: int64"),
        (["a", 2], "Unexpected element type in feature: f expecting type: bytes"),
        ([{"b64": ""}, True], "Unexpected element type in feature: f expecting type: bytes"),
        ([True, {"b64": "%"}], "Unexpected element type in feature: f expecting type: int64"),
        ([1.5, 2**64 - 1], "Unexpected element type in feature: f expecting type: float"),
        (2**63, "Feature: f has uint64_t element. Only int64_t is supported."),
        (None, "Feature: f has element with unexpected JSON type: Null"),
        ({}, "Feature: f has element with unexpected JSON type: Object"),
        ({"b64": 1}, "Feature: f has element with unexpected JSON type: Object"),
        ([[1]], "Feature: f has element with unexpected JSON type: Array"),
        ({"b64": "a"}, "Unable to base64 decode"),
    ],
)
def test_refused_features(value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parsed([{"f": value}])
    assert caught.value.message == message


def test_a_base64_object_has_one_member() -> None:
    with pytest.raises(InvalidArgument, match="unexpected JSON type: Object"):
        parse_examples_body(b'{"examples": [{"f": {"b64": "", "b64": ""}}]}')
