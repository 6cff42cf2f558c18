"""tensorflow.TensorProto between its wire bytes and `Tensor`, with the leniencies of TensorFlow's Tensor::FromProto."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np

from bridge.codec import wire
from bridge.codec.string_tensor import frame, unframe
from bridge.codec.tensor import Tensor
from bridge.codec.wire import LEN, VARINT, MalformedRequest
from bridge.errors import Internal, InvalidArgument
from model_repo_sync.runner.tensorflow_engine import dtypes

MAX_RANK = 254
"""TensorFlow's TensorShape::MaxDimensions()."""

MAX_FILLED_BYTES = 2**31 - 1
"""How large a tensor may grow by repeating its last value: what one gRPC message could have carried.

TensorFlow would allocate whatever the shape asks for.
"""

_DTYPE, _SHAPE, _CONTENT = 1 << 3 | VARINT, 2 << 3 | LEN, 4 << 3 | LEN
_DIM, _DIM_SIZE, _DIM_NAME = 2 << 3 | LEN, 1 << 3 | VARINT, 2 << 3 | LEN


class TensorParseError(InvalidArgument):
    """A TensorProto that TensorFlow would refuse; TF Serving answers `tensor parsing error: <alias>`."""


class Kind(Enum):
    """How a typed field carries its values."""

    FIXED = "packed fixed32 or fixed64, little-endian as in memory"
    VARINT = "packed varints"
    RAW = "one bytes field, an element each byte"
    STRINGS = "repeated bytes"


class TypedField(NamedTuple):
    """The repeated field of TensorProto that carries a dtype. `memory` is the numpy form of a VARINT element."""

    number: int
    kind: Kind
    memory: str = ""


_TYPED_FIELDS: dict[int, TypedField] = {
    1: TypedField(5, Kind.FIXED),
    2: TypedField(6, Kind.FIXED),
    3: TypedField(7, Kind.VARINT, "<i4"),
    4: TypedField(7, Kind.VARINT, "u1"),
    5: TypedField(7, Kind.VARINT, "<i2"),
    6: TypedField(7, Kind.VARINT, "i1"),
    7: TypedField(8, Kind.STRINGS),
    8: TypedField(9, Kind.FIXED),
    9: TypedField(10, Kind.VARINT, "<i8"),
    10: TypedField(11, Kind.VARINT, "?"),
    11: TypedField(7, Kind.VARINT, "i1"),
    12: TypedField(7, Kind.VARINT, "u1"),
    13: TypedField(7, Kind.VARINT, "<i4"),
    14: TypedField(13, Kind.VARINT, "<u2"),
    15: TypedField(7, Kind.VARINT, "<i2"),
    16: TypedField(7, Kind.VARINT, "<u2"),
    17: TypedField(7, Kind.VARINT, "<u2"),
    18: TypedField(12, Kind.FIXED),
    19: TypedField(13, Kind.VARINT, "<u2"),
    22: TypedField(16, Kind.VARINT, "<u4"),
    23: TypedField(17, Kind.VARINT, "<u8"),
    24: TypedField(18, Kind.RAW),
    25: TypedField(18, Kind.RAW),
    29: TypedField(7, Kind.VARINT, "i1"),
    30: TypedField(7, Kind.VARINT, "u1"),
}

_FIXED_WIDTHS = {5: 4, 6: 8, 9: 4, 12: 8}
_FIXED_TAGS = {number << 3 | (wire.I32 if width == 4 else wire.I64): number for number, width in _FIXED_WIDTHS.items()}
_VARINT_FIELDS = (7, 10, 11, 13, 16, 17)
_VARINT_TAGS = {number << 3 | VARINT: number for number in _VARINT_FIELDS}
_LEN_TAGS = {number << 3 | LEN: number for number in (*_FIXED_WIDTHS, *_VARINT_FIELDS, 8)}
_RAW_TAG = 18 << 3 | LEN

_EMPTY = memoryview(b"")
_BOOL = 10


@dataclass(slots=True)
class _Message:
    """A scanned TensorProto. `values` has the chunks of each typed field, packed or one by one."""

    dtype: int = 0
    shape: list[int] = field(default_factory=list)
    content: memoryview = _EMPTY
    values: dict[int, list[memoryview]] = field(default_factory=dict)


def decode_tensor_proto(data: memoryview, max_filled_bytes: int = MAX_FILLED_BYTES) -> Tensor:
    """The tensor of a serialized TensorProto, sharing memory with `data` where the bytes allow it.

    As in Tensor::FromProto: non-empty tensor_content wins and has to have the exact length; of typed values the last is
    repeated up to the element count, none mean zeros or empty strings, surplus ones are ignored, those in another
    dtype's field do not count, integers wrap around to narrow dtypes; without a shape the tensor is a scalar.
    Raises TensorParseError for what TensorFlow refuses, and past `max_filled_bytes`; MalformedRequest for bytes that
    are no message.
    """
    message = _scan(data)
    dtype = dtypes.DTYPES.get(message.dtype)
    if dtype is None:
        raise TensorParseError(f"A tensor of type {dtypes.name(message.dtype)} cannot be served.")
    shape = tuple(message.shape)
    count = element_count(shape)
    if count == 0:
        payload: bytes | memoryview = b""
    elif len(message.content):
        payload = _from_content(message.content, dtype, count)
    elif dtype.is_string:
        payload = _from_strings(message.values.get(8, []), count, max_filled_bytes)
    else:
        payload = _fill(_from_values(message, dtype), count, dtype.itemsize, max_filled_bytes)
    return Tensor(dtype.number, shape, payload)


def element_count(shape: tuple[int, ...]) -> int:
    """The number of elements. Raises TensorParseError for a shape that TensorFlow refuses."""
    if len(shape) > MAX_RANK:
        raise TensorParseError(f"The tensor has {len(shape)} dimensions, more than {MAX_RANK}.")
    count = 1
    for size in shape:
        if size < 0:
            raise TensorParseError(f"The tensor has a dimension of negative size {size}.")
        count *= size
        if count >= 2**63:
            raise TensorParseError(f"The shape {list(shape)} has more elements than fit in 64 bits.")
    return count


def _scan(data: memoryview) -> _Message:
    message = _Message()
    values = message.values
    for tag, number, view in wire.fields(data):
        if tag in _LEN_TAGS:
            values.setdefault(_LEN_TAGS[tag], []).append(view)
        elif tag == _DTYPE:
            message.dtype = wire.signed(number, 32)
        elif tag == _SHAPE:
            _scan_shape(view, message.shape)
        elif tag == _CONTENT:
            message.content = view
        elif tag in _FIXED_TAGS:
            values.setdefault(_FIXED_TAGS[tag], []).append(view)
        elif tag in _VARINT_TAGS:
            values.setdefault(_VARINT_TAGS[tag], []).append(memoryview(wire.encode_varint(number)))
        elif tag == _RAW_TAG:
            values[18] = [view]
    for number, width in _FIXED_WIDTHS.items():
        if any(len(chunk) % width for chunk in values.get(number, ())):
            raise MalformedRequest("Malformed protobuf message: a packed field ends within a value.")
    return message


def _scan_shape(data: memoryview, shape: list[int]) -> None:
    """Append the sizes of a TensorShapeProto. Its unknown_rank means nothing for a tensor that exists."""
    for tag, _, view in wire.fields(data):
        if tag == _DIM:
            size = 0
            for dim_tag, number, name in wire.fields(view):
                if dim_tag == _DIM_SIZE:
                    size = wire.signed(number)
                elif dim_tag == _DIM_NAME:
                    wire.text(name)
            shape.append(size)


def _from_content(content: memoryview, dtype: dtypes.DType, count: int) -> bytes | memoryview:
    if dtype.is_string:
        return _strings_from_content(content, count)
    if len(content) != count * dtype.itemsize:
        raise TensorParseError(f"tensor_content has {len(content)} bytes where {count * dtype.itemsize} are needed.")
    if dtype.number == _BOOL and bytes(content).translate(None, b"\x00\x01"):
        raise TensorParseError("tensor_content holds bytes that are neither 0 nor 1, so they are no booleans.")
    return content


def _strings_from_content(content: memoryview, count: int) -> bytes:
    """TensorFlow's own framing of strings: all lengths as varints, then all bytes."""
    pos, lengths = 0, []
    try:
        for _ in range(count):
            length, pos = wire.read_varint(content, pos)
            lengths.append(length)
    except IndexError:
        raise TensorParseError(f"tensor_content holds the lengths of less than {count} strings.") from None
    if pos + sum(lengths) != len(content):
        raise TensorParseError("The string lengths in tensor_content do not add up to its size.")
    items = []
    for length in lengths:
        items.append(content[pos : pos + length])
        pos += length
    return frame(items)


def _from_strings(items: list[memoryview], count: int, max_bytes: int) -> bytes:
    last = items[-1] if items else memoryview(b"")
    missing = max(0, count - len(items))
    _check_filled(missing * (4 + len(last)), max_bytes)
    return frame(items[:count]) + frame([last]) * missing


def _from_values(message: _Message, dtype: dtypes.DType) -> bytes | memoryview:
    """The typed values that the message has, in memory layout."""
    typed = _TYPED_FIELDS[dtype.number]
    chunks = message.values.get(typed.number, [])
    if typed.kind is Kind.VARINT:
        return b"".join([wire.decode_varints(chunk, typed.memory).tobytes() for chunk in chunks])
    if len(chunks) == 1:
        return chunks[0]
    return b"".join(chunks)


def _fill(values: bytes | memoryview, count: int, itemsize: int, max_bytes: int) -> bytes | memoryview:
    """Exactly `count` elements: surplus values cut, the last one repeated."""
    size, have = count * itemsize, len(values) // itemsize
    if have >= count:
        return values if len(values) == size else values[:size]
    _check_filled(size, max_bytes)
    last = bytes(values[(have - 1) * itemsize : have * itemsize]) if have else bytes(itemsize)
    return b"".join((values[: have * itemsize], last * (count - have)))


def _check_filled(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise TensorParseError(f"The shape asks for {size} bytes of repeated values, more than {max_bytes}.")


def encode_tensor_proto(tensor: Tensor, as_content: bool = False) -> bytes:
    """The serialized TensorProto: dtype, a shape that is always present, then every value in its typed field.

    With `as_content` the values go to tensor_content. A tensor without elements has dtype and shape only.
    Raises Internal where the data does not fit the shape.
    """
    return b"".join(tensor_proto_buffers(tensor, as_content))


def tensor_proto_buffers(tensor: Tensor, as_content: bool = False) -> list[bytes | memoryview]:
    """What `encode_tensor_proto` joins, so that a caller with more to write joins once."""
    buffers: list[bytes | memoryview] = [b"\x08" + wire.encode_varint(tensor.dtype) + _encode_shape(tensor.shape)]
    data = memoryview(tensor.data).cast("B")
    count = element_count(tensor.shape)
    if tensor.dtype == dtypes.DT_STRING:
        items = _checked_strings(tensor, count)
        if count:
            buffers.extend(_content_of_strings(items) if as_content else _string_values(items))
        return buffers
    _check_size(tensor, len(data), count * dtypes.DTYPES[tensor.dtype].itemsize)
    if count:
        typed = _TYPED_FIELDS[tensor.dtype]
        number = 4 if as_content else typed.number
        payload = _varint_values(data, typed) if typed.kind is Kind.VARINT and not as_content else data
        buffers += (wire.encode_varint(number << 3 | LEN) + wire.encode_varint(len(payload)), payload)
    return buffers


def _encode_shape(shape: tuple[int, ...]) -> bytes:
    dims = [b"\x08" + wire.encode_varint(size) if size else b"" for size in shape]
    return wire.length_delimited(_SHAPE, b"".join([wire.length_delimited(_DIM, dim) for dim in dims]))


def _varint_values(data: memoryview, typed: TypedField) -> bytes:
    if typed.memory == "?":
        return np.not_equal(np.frombuffer(data, np.uint8), 0).tobytes()
    memory = np.frombuffer(data, typed.memory)
    wide = memory.astype(np.int64) if memory.dtype.kind == "i" else memory
    return wire.encode_varints(wide.astype(np.uint64))


def _string_values(items: list[bytes]) -> list[bytes | memoryview]:
    return [wire.length_delimited(8 << 3 | LEN, item) for item in items]


def _content_of_strings(items: list[bytes]) -> list[bytes | memoryview]:
    lengths = b"".join([wire.encode_varint(len(item)) for item in items])
    size = len(lengths) + sum(map(len, items))
    return [wire.encode_varint(_CONTENT) + wire.encode_varint(size) + lengths, *items]


def _checked_strings(tensor: Tensor, count: int) -> list[bytes]:
    try:
        items = unframe(tensor.data)
    except ValueError as error:
        raise Internal(str(error)) from None
    if len(items) != count:
        raise Internal(f"A string tensor of shape {list(tensor.shape)} came with {len(items)} elements.")
    return items


def _check_size(tensor: Tensor, size: int, needed: int) -> None:
    if size != needed:
        name = dtypes.name(tensor.dtype)
        raise Internal(f"A {name} tensor of shape {list(tensor.shape)} came with {size} bytes instead of {needed}.")
