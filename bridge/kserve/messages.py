"""The messages of ModelInfer between their wire bytes and protobuf, raw contents left where they are.

protobuf would copy each raw tensor three times on its way; here a request's are views of its bytes, and a response's
are joined to its bytes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message
from tritonclient.grpc import service_pb2

from bridge.codec import wire
from bridge.codec.wire import LEN, MalformedRequest
from bridge.triton.outputs import byte_size

Buffer = bytes | bytearray | memoryview

_RAW_INPUT, _RAW_OUTPUT = 7 << 3 | LEN, 6 << 3 | LEN
_STREAM_RESPONSE = 2 << 3 | LEN

M = TypeVar("M", bound=Message)


class InferRequest(NamedTuple):
    """`head` is the ModelInferRequest without its raw input contents, which are `raw`."""

    head: Any
    raw: Sequence[Buffer] = ()

    def named(self, model: str) -> bytes:
        """The serialized request under another name."""
        head = type(self.head)()
        head.CopyFrom(self.head)
        head.model_name = model
        return b"".join(_buffers(head, self.raw, _RAW_INPUT))


class InferResponse(NamedTuple):
    """`head` is the ModelInferResponse without its raw output contents, which are `raw`."""

    head: Any
    raw: Sequence[Buffer]

    def serialized(self) -> bytes:
        return b"".join(_buffers(self.head, self.raw, _RAW_OUTPUT))

    def serialized_for_stream(self) -> bytes:
        """A ModelStreamInferResponse with this response."""
        buffers = _buffers(self.head, self.raw, _RAW_OUTPUT)
        size = sum(map(byte_size, buffers))
        return b"".join([wire.encode_varint(_STREAM_RESPONSE), wire.encode_varint(size), *buffers])


def infer_request(data: bytes) -> InferRequest:
    """Read a serialized ModelInferRequest. Raises MalformedRequest."""
    return InferRequest(*_split(service_pb2.ModelInferRequest, data, _RAW_INPUT))


def infer_response(data: bytes) -> InferResponse:
    """Read a serialized ModelInferResponse. Raises MalformedRequest."""
    return InferResponse(*_split(service_pb2.ModelInferResponse, data, _RAW_OUTPUT))


def _split(kind: type[M], data: bytes, raw_tag: int) -> tuple[M, list[memoryview]]:
    """The message without its fields of `raw_tag`, and those. All fields of both messages are length-delimited."""
    head: list[bytes] = []
    raw: list[memoryview] = []
    for tag, _, view in wire.fields(memoryview(data)):
        if tag == raw_tag:
            raw.append(view)
        elif tag & 7 == LEN:
            head.append(wire.length_delimited(tag, bytes(view)))
    message = kind()
    try:
        message.ParseFromString(b"".join(head))
    except DecodeError as error:
        raise MalformedRequest(f"The request is no {message.DESCRIPTOR.full_name}.") from error
    return message, raw


def _buffers(head: Any, raw: Sequence[Buffer], raw_tag: int) -> list[Buffer]:
    buffers: list[Buffer] = [head.SerializeToString()]
    tag = wire.encode_varint(raw_tag)
    for content in raw:
        buffers += (tag + wire.encode_varint(byte_size(content)), content)
    return buffers
