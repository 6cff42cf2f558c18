"""The body of a V2 inference request over HTTP, JSON with or without binary tensors, as a ModelInferRequest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import orjson
from tritonclient.grpc import service_pb2

from bridge.errors import InvalidArgument
from bridge.kserve.contents import pack
from bridge.kserve.datatypes import BYTES, NUMPY
from bridge.kserve.messages import Buffer, InferRequest

BINARY_SIZE, BINARY, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"

_WORDS: dict[type, str] = {str: "a string", dict: "a JSON object", list: "an array"}

_JSON_TYPES: dict[str, set[type]] = {"B": {bool}, "I": {int}, "U": {int}, "F": {int, float}}
"""What JSON carries an element as, by the first letter of its datatype."""


class RestRequest(NamedTuple):
    """`message` has raw contents only. `binary` says of outputs by name whether they go out in binary form, which
    `binary_default` says of all others."""

    message: InferRequest
    binary: Mapping[str, bool]
    binary_default: bool


def parse_request(body: bytes, json_size: int | None, model: str, version: str) -> RestRequest:
    """Read a body; its first `json_size` bytes are JSON, None means all. Raises InvalidArgument."""
    document = _document(body if json_size is None else body[:json_size])
    head = service_pb2.ModelInferRequest(model_name=model, model_version=version)
    head.id = _typed(document, "id", str, "")
    parameters = dict(_typed(document, "parameters", dict, {}))
    binary_default = bool(parameters.pop(BINARY_OUTPUT, False))
    _fill(head.parameters, parameters)
    binary = memoryview(body)[len(body) if json_size is None else json_size :]
    raw = _inputs(head, _typed(document, "inputs", list, []), binary)
    outputs = _outputs(head, _typed(document, "outputs", list, []))
    return RestRequest(InferRequest(head, raw), outputs, binary_default)


def _document(text: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"failed to parse the request JSON buffer: {error}") from error
    if not isinstance(document, dict):
        raise InvalidArgument("the request has to be a JSON object")
    return document


def _inputs(head: Any, items: Sequence[Any], binary: memoryview) -> list[Buffer]:
    """Describe the inputs in `head`; their raw contents."""
    raw: list[Buffer] = []
    start = 0
    for item in items:
        name = _name(item, "inputs")
        tensor = head.inputs.add(name=name, datatype=_typed(item, "datatype", str, ""), shape=_shape(item, name))
        parameters = dict(_typed(item, "parameters", dict, {}))
        size = parameters.pop(BINARY_SIZE, None)
        _fill(tensor.parameters, parameters)
        if size is None:
            raw.append(_packed(item, name, tensor.datatype, head.model_name))
            continue
        if not isinstance(size, int) or size < 0 or start + size > len(binary):
            raise InvalidArgument(f"input '{name}': {BINARY_SIZE} {size} is not within the request's binary data")
        raw.append(binary[start : start + size])
        start += size
    if start != len(binary):
        raise InvalidArgument(f"the request has {len(binary) - start} bytes of binary data that no input claims")
    return raw


def _packed(item: Mapping[str, Any], name: str, datatype: str, model: str) -> bytes:
    elements = _flat(_typed(item, "data", list, None, name))
    if datatype == BYTES:
        if not all(isinstance(element, str) for element in elements):
            raise InvalidArgument(f"input '{name}' for model '{model}' is BYTES: its data have to be strings")
        return pack(name, datatype, [element.encode() for element in elements], model)
    if datatype not in NUMPY or datatype == "FP16":
        raise InvalidArgument(f"input '{name}' for model '{model}' is '{datatype}', which JSON does not carry")
    if not set(map(type, elements)) <= _JSON_TYPES[datatype[0]]:
        raise InvalidArgument(f"input '{name}' for model '{model}' holds a value that is no {datatype}")
    return pack(name, datatype, elements, model)


def _flat(data: list[Any]) -> list[Any]:
    """The elements of nested lists; how they are nested does not count, as in Triton."""
    while any(type(item) is list for item in data):
        data = list(chain.from_iterable(item if type(item) is list else (item,) for item in data))
    return data


def _outputs(head: Any, items: Sequence[Any]) -> dict[str, bool]:
    binary = {}
    for item in items:
        name = _name(item, "outputs")
        parameters = dict(_typed(item, "parameters", dict, {}))
        if BINARY in parameters:
            binary[name] = bool(parameters.pop(BINARY))
        _fill(head.outputs.add(name=name).parameters, parameters)
    return binary


def _fill(target: Any, parameters: Mapping[str, Any]) -> None:
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, int) and -(2**63) <= value < 2**63:
            target[name].int64_param = value
        elif isinstance(value, float):
            target[name].double_param = value
        elif isinstance(value, str):
            target[name].string_param = value
        else:
            raise InvalidArgument(f"parameter '{name}' has to be a string, a number or a boolean")


def _name(item: Any, side: str) -> str:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise InvalidArgument(f"each of the request's {side} has to be a JSON object with a name")
    name: str = item["name"]
    return name


def _shape(item: Mapping[str, Any], name: str) -> list[int]:
    shape: list[int] = _typed(item, "shape", list, None, name)
    if not all(type(size) is int and -(2**63) <= size < 2**63 for size in shape):
        raise InvalidArgument(f"input '{name}': shape has to hold whole numbers")
    return shape


def _typed(document: Mapping[str, Any], key: str, kind: type, default: Any, name: str = "") -> Any:
    value = document.get(key, default)
    if not isinstance(value, kind):
        where = f"input '{name}': " if name else ""
        raise InvalidArgument(f"{where}'{key}' has to be {_WORDS[kind]}")
    return value
