"""tensorflow.serving.PredictRequest from, and PredictResponse to, their wire bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.codec import wire
from bridge.codec.model_spec import ModelSpec, encode_model_spec, merge_model_spec
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import tensor_proto_buffers
from bridge.codec.wire import LEN, MalformedRequest

__all__ = ["MalformedRequest", "ModelSpec", "PredictCall", "decode_predict_request", "encode_predict_response"]

_MODEL_SPEC, _INPUTS, _OUTPUT_FILTER = 1 << 3 | LEN, 2 << 3 | LEN, 3 << 3 | LEN
_KEY, _VALUE = 1 << 3 | LEN, 2 << 3 | LEN


class PredictCall(NamedTuple):
    """A PredictRequest. `spec` is None where the message lacks it; `inputs` are serialized TensorProtos by alias."""

    spec: ModelSpec | None
    inputs: dict[str, memoryview]
    output_filter: tuple[str, ...]


def decode_predict_request(data: bytes | memoryview) -> PredictCall:
    """Split a serialized PredictRequest without copying its tensors.

    As protobuf parses: the last of equal aliases wins, a model_spec in pieces is merged, unknown fields are skipped.
    The tensors are left unparsed. Raises MalformedRequest.
    """
    spec: ModelSpec | None = None
    inputs: dict[str, memoryview] = {}
    output_filter: list[str] = []
    for tag, _, view in wire.fields(memoryview(data)):
        if tag == _INPUTS:
            alias, tensor = _decode_input(view)
            inputs[alias] = tensor
        elif tag == _MODEL_SPEC:
            spec = merge_model_spec(spec, view)
        elif tag == _OUTPUT_FILTER:
            output_filter.append(wire.text(view))
    return PredictCall(spec, inputs, tuple(output_filter))


def _decode_input(entry: memoryview) -> tuple[str, memoryview]:
    alias = ""
    tensor = memoryview(b"")
    for tag, _, view in wire.fields(entry):
        if tag == _KEY:
            alias = wire.text(view)
        elif tag == _VALUE:
            tensor = _merged(tensor, view)
    return alias, tensor


def _merged(first: memoryview, second: memoryview) -> memoryview:
    """Two occurrences of one sub-message: protobuf merges them as if their bytes stood in one."""
    return memoryview(b"".join((first, second))) if len(first) else second


def encode_predict_response(
    name: str,
    version: int,
    signature: str,
    outputs: Sequence[tuple[str, Tensor]],
    as_content: bool = False,
) -> bytes:
    """A serialized PredictResponse: `outputs` by alias, and the model_spec that answered.

    `as_content` writes tensor_content instead of typed fields. Raises Internal where a tensor's data does not fit its
    shape.
    """
    buffers = _map_buffers(1 << 3 | LEN, outputs, as_content)
    buffers.append(wire.length_delimited(2 << 3 | LEN, encode_model_spec(name, version, signature)))
    return b"".join(buffers)


def encode_predict_request(spec: ModelSpec, inputs: Sequence[tuple[str, Tensor]]) -> bytes:
    """A serialized PredictRequest that asks for all outputs: what a REST body means."""
    name, version, label, signature, _ = spec
    buffers = [wire.length_delimited(_MODEL_SPEC, encode_model_spec(name, version, signature, label))]
    return b"".join([*buffers, *_map_buffers(_INPUTS, inputs, as_content=False)])


def _map_buffers(field: int, tensors: Sequence[tuple[str, Tensor]], as_content: bool) -> list[bytes | memoryview]:
    """A map<string, TensorProto> with the tag `field`."""
    buffers: list[bytes | memoryview] = []
    for alias, tensor in tensors:
        proto = tensor_proto_buffers(tensor, as_content)
        size = sum(map(len, proto))
        key = wire.length_delimited(_KEY, alias.encode())
        head = key + wire.encode_varint(_VALUE) + wire.encode_varint(size)
        buffers.append(wire.encode_varint(field) + wire.encode_varint(len(head) + size) + head)
        buffers.extend(proto)
    return buffers
