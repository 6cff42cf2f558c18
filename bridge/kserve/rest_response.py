"""A ModelInferResponse as the body of an HTTP answer, and the messages about models as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
import orjson
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from bridge.codec.string_tensor import unframe
from bridge.errors import InvalidArgument
from bridge.kserve.datatypes import BYTES, NUMPY
from bridge.kserve.messages import Buffer, InferResponse
from bridge.kserve.rest_request import BINARY_SIZE
from bridge.triton.outputs import byte_size

_WIDE = (
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT64,
)


class RestResponse(NamedTuple):
    """A body; `json_size` is the length of its JSON where binary tensors follow, else None."""

    body: bytes
    json_size: int | None


def infer_body(response: InferResponse, binary: Mapping[str, bool], binary_default: bool) -> RestResponse:
    """The answer to an inference request. Raises InvalidArgument for what JSON does not carry."""
    tensors: list[Buffer] = []
    message = response.head
    document: dict[str, Any] = {"model_name": message.model_name, "model_version": message.model_version}
    if message.id:
        document["id"] = message.id
    if message.parameters:
        document["parameters"] = _parameters(message.parameters)
    document["outputs"] = [
        _output(output, raw, tensors if binary.get(output.name, binary_default) else None)
        for output, raw in zip(message.outputs, response.raw, strict=True)
    ]
    text = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    binary_form = any(binary.get(output.name, binary_default) for output in message.outputs)
    return RestResponse(b"".join([text, *tensors]), len(text) if binary_form else None)


def plain(message: Any) -> Any:
    """A message as JSON data with its own field names; 64-bit numbers stay numbers, as Triton writes them."""
    document = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=False
    )
    return _numbers(document, message.DESCRIPTOR)


def _output(output: Any, raw: Buffer, tensors: list[Buffer] | None) -> dict[str, Any]:
    document: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": list(output.shape)}
    parameters = _parameters(output.parameters)
    if tensors is not None:
        tensors.append(raw)
        parameters[BINARY_SIZE] = byte_size(raw)
    else:
        document["data"] = _data(output, raw)
    return document | ({"parameters": parameters} if parameters else {})


def _data(output: Any, raw: Buffer) -> Any:
    if output.datatype == BYTES:
        try:
            return [item.decode() for item in unframe(raw)]
        except UnicodeDecodeError as error:
            raise InvalidArgument(
                f"output '{output.name}' holds bytes that are no UTF-8: ask for it with binary_data"
            ) from error
    if output.datatype not in NUMPY or output.datatype == "FP16":
        raise InvalidArgument(f"output '{output.name}' is {output.datatype}: ask for it with binary_data")
    return np.frombuffer(raw, NUMPY[output.datatype], prod(output.shape))


def _parameters(parameters: Any) -> dict[str, Any]:
    return {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in parameters.items()}


def _numbers(document: Any, descriptor: Any) -> Any:
    fields = descriptor.fields_by_name
    return {name: _field(value, fields[name]) for name, value in document.items()}


def _field(value: Any, field: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {key: _field(item, field.message_type.fields_by_name["value"]) for key, item in value.items()}
    if isinstance(value, list):
        return [_field(item, field) for item in value]
    if field.message_type is not None:
        return _numbers(value, field.message_type)
    return int(value) if field.cpp_type in _WIDE else value
