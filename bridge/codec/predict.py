"""tensorflow.serving.PredictRequest from, and PredictResponse to, their wire bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from bridge.codec import native, wire
from bridge.codec.long_message import LongMessage, Message
from bridge.codec.model_spec import ModelSpec, encode_model_spec, merge_model_spec
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import tensor_proto_buffers
from bridge.codec.wire import LEN, MalformedRequest
from model_repo_sync.runner.tensorflow_engine.dtypes import DT_STRING

__all__ = ["MalformedRequest", "ModelSpec", "PredictCall", "decode_predict_request", "encode_predict_response"]

_MODEL_SPEC, _INPUTS, _OUTPUT_FILTER = 1 << 3 | LEN, 2 << 3 | LEN, 3 << 3 | LEN
LONG = 1 << 20
"""Bytes of tensors from which a response is left in pieces."""
_SHORT = 512
"""Bytes of a model_spec that is worth to be remembered."""
_KEY, _VALUE = 1 << 3 | LEN, 2 << 3 | LEN


class PredictCall(NamedTuple):
    """A PredictRequest. `spec` is None where the message lacks it.

    `inputs` are by alias: tensors, or serialized TensorProtos that nobody has looked into.
    """

    spec: ModelSpec | None
    inputs: Mapping[str, memoryview | Tensor]
    output_filter: tuple[str, ...]


def decode_predict_request(data: bytes) -> PredictCall:
    """Split a serialized PredictRequest without copying its tensors.

    As protobuf parses: the last of equal aliases wins, a model_spec in pieces is merged, unknown fields are skipped.
    Dense tensors of plain form are read at once, all others are left unparsed. Raises MalformedRequest.
    """
    view = memoryview(data)
    if native.PREDICT is not None and (found := native.PREDICT.decode(data, view, Tensor)) is not None:
        spec, inputs = found
        return PredictCall(_spec(spec) if len(spec) <= _SHORT else merge_model_spec(None, spec), inputs, ())
    return _decode(view)


@lru_cache(maxsize=1024)
def _spec(data: bytes) -> ModelSpec:
    """A model_spec; clients send few different ones."""
    return merge_model_spec(None, memoryview(data))


def _decode(data: memoryview) -> PredictCall:
    spec: ModelSpec | None = None
    inputs: dict[str, memoryview | Tensor] = {}
    output_filter: list[str] = []
    for tag, _, view in wire.fields(data):
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
    outputs: list[tuple[str, Tensor]],
    as_content: bool = False,
) -> bytes:
    """A serialized PredictResponse: `outputs` by alias, and the model_spec that answered.

    `as_content` writes tensor_content instead of typed fields. Raises Internal where a tensor's data does not fit its
    shape.
    """
    end = _response_spec(name, version, signature)
    if native.PREDICT is not None and (data := native.PREDICT.encode(outputs, as_content, end)) is not None:
        return cast(bytes, data)
    return b"".join([*_map_buffers(1 << 3 | LEN, outputs, as_content), end])


def predict_response(
    name: str,
    version: int,
    signature: str,
    outputs: list[tuple[str, Tensor]],
    as_content: bool = False,
) -> Message:
    """What `encode_predict_response` joins, left in pieces where copying numbers once more would take long."""
    size = 0
    for _, tensor in outputs:
        size += memoryview(tensor.data).nbytes
    if size < LONG or any(tensor.dtype == DT_STRING for _, tensor in outputs):
        return encode_predict_response(name, version, signature, outputs, as_content)
    return LongMessage(
        (*_map_buffers(1 << 3 | LEN, outputs, as_content), _response_spec(name, version, signature)),
    )


@lru_cache(maxsize=1024)
def _response_spec(name: str, version: int, signature: str) -> bytes:
    """The field of a response that says who answered; it ends the message."""
    return wire.length_delimited(2 << 3 | LEN, encode_model_spec(name, version, signature))


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
