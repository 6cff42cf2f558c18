"""tensorflow.serving.PredictRequest from, and PredictResponse to, their wire bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.codec import wire
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import tensor_proto_buffers
from bridge.codec.wire import LEN, VARINT, MalformedRequest

__all__ = ["MalformedRequest", "ModelSpec", "PredictCall", "decode_predict_request", "encode_predict_response"]

_MODEL_SPEC, _INPUTS, _OUTPUT_FILTER = 1 << 3 | LEN, 2 << 3 | LEN, 3 << 3 | LEN
_KEY, _VALUE = 1 << 3 | LEN, 2 << 3 | LEN
_NAME, _VERSION, _SIGNATURE, _LABEL = 1 << 3 | LEN, 2 << 3 | LEN, 3 << 3 | LEN, 4 << 3 | LEN
_INT64_VALUE = 1 << 3 | VARINT


class ModelSpec(NamedTuple):
    """Which model, version and signature a client asks for.

    At most one of `version` and `label` is not None; version 0 is a version. Empty `signature` means the default.
    """

    name: str = ""
    version: int | None = None
    label: str | None = None
    signature: str = ""


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
            spec = _merge_spec(spec or ModelSpec(), view)
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


def _merge_spec(spec: ModelSpec, data: memoryview) -> ModelSpec:
    name, version, label, signature = spec
    for tag, _, view in wire.fields(data):
        if tag == _NAME:
            name = wire.text(view)
        elif tag == _VERSION:
            version, label = _merge_int64(version or 0, view), None
        elif tag == _SIGNATURE:
            signature = wire.text(view)
        elif tag == _LABEL:
            version, label = None, wire.text(view)
    return ModelSpec(name, version, label, signature)


def _merge_int64(value: int, data: memoryview) -> int:
    for tag, number, _ in wire.fields(data):
        if tag == _INT64_VALUE:
            value = wire.signed(number)
    return value


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
    buffers: list[bytes | memoryview] = []
    for alias, tensor in outputs:
        proto = tensor_proto_buffers(tensor, as_content)
        size = sum(map(len, proto))
        key = wire.length_delimited(_KEY, alias.encode())
        head = key + wire.encode_varint(_VALUE) + wire.encode_varint(size)
        buffers.append(b"\x0a" + wire.encode_varint(len(head) + size) + head)
        buffers.extend(proto)
    buffers.append(wire.length_delimited(2 << 3 | LEN, encode_model_spec(name, version, signature)))
    return b"".join(buffers)


def encode_model_spec(name: str, version: int, signature: str) -> bytes:
    """A serialized ModelSpec as responses carry it: always with a version, never with a label."""
    parts = [wire.length_delimited(_NAME, name.encode())] if name else []
    parts.append(wire.length_delimited(_VERSION, b"\x08" + wire.encode_varint(version) if version else b""))
    if signature:
        parts.append(wire.length_delimited(_SIGNATURE, signature.encode()))
    return b"".join(parts)
