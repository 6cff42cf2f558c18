"""The body of a REST classify or regress request: JSON objects as tensorflow.Examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bridge.codec.base64_text import decode_base64
from bridge.codec.examples import Examples
from bridge.codec.json_body import RepeatedKeys, parse_object
from bridge.codec.json_text import dump
from bridge.codec.json_values import is_base64_object, type_name
from bridge.codec.rest_request import signature_name
from bridge.errors import InvalidArgument
from model_repo_sync.protos.tensorflow.example_pb2 import Example
from model_repo_sync.protos.tensorflow.feature_pb2 import Feature

_KINDS = {str: "bytes", dict: "bytes", int: "int64", bool: "int64", float: "float"}
_INT64_MAX = 2**63 - 1


class RestExamples(NamedTuple):
    """A parsed body. `signature_name` is empty for the default."""

    signature_name: str
    examples: Examples


def parse_examples_body(body: bytes) -> RestExamples:
    """The Examples of a body, features typed by their JSON values alone. Raises InvalidArgument."""
    root = parse_object(body)
    signature = signature_name(root)
    context = _example(root["context"]) if "context" in root else None
    problem = _problem(root)
    if problem:
        raise InvalidArgument(f"JSON Value: {dump(root)} {problem}")
    return RestExamples(signature, Examples([_example(item) for item in root["examples"]], context))


def _problem(root: Mapping[str, Any]) -> str:
    if "examples" not in root:
        return "When method is classify, key 'examples' is expected and was not found"
    if not isinstance(root["examples"], list):
        return "Expecting 'examples' value to be an list/array"
    return "" if root["examples"] else "'examples' value is an empty array"


def _example(value: Any) -> bytes:
    """A serialized Example; of a repeated feature the last one counts."""
    if not isinstance(value, dict):
        raise InvalidArgument(f"Example must be JSON object but got JSON {type_name(value)}")
    features: dict[str, Feature] = {name: _feature(name, content) for name, content in _members(value)}
    example = Example()
    for name, feature in features.items():
        example.features.feature[name].CopyFrom(feature)
    return example.SerializeToString()


def _members(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return value.members if isinstance(value, RepeatedKeys) else value.items()


def _feature(name: str, content: Any) -> Feature:
    values = content if isinstance(content, list) else [content]
    kind, elements = "", list[Any]()
    for value in values:
        kind = _checked_kind(name, value, kind)
        elements.append(decode_base64(value["b64"]) if kind == "bytes" and type(value) is dict else value)
    feature = Feature()
    if kind == "bytes":
        feature.bytes_list.value.extend(item.encode() if isinstance(item, str) else item for item in elements)
    elif kind == "float":
        feature.float_list.value.extend(elements)
    elif kind == "int64":
        feature.int64_list.value.extend(map(int, elements))
    return feature


def _checked_kind(name: str, value: Any, expected: str) -> str:
    """The kind of list that `value` goes to. The first value of a feature decides it for all."""
    kind = _KINDS.get(type(value))
    if kind is None or (type(value) is dict and not is_base64_object(value)):
        raise InvalidArgument(f"Feature: {name} has element with unexpected JSON type: {type_name(value)}")
    if expected and kind != expected:
        raise InvalidArgument(f"Unexpected element type in feature: {name} expecting type: {expected}")
    if type(value) is int and value > _INT64_MAX:
        raise InvalidArgument(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
    return kind
