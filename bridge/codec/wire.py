"""The protobuf wire format, as far as the codecs need it: a strict field scanner and vectorised varints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.errors import Internal

VARINT, I64, LEN, START_GROUP, END_GROUP, I32 = 0, 1, 2, 3, 4, 5

_FIXED_WIDTH = {I64: 8, I32: 4}
_MAX_GROUP_DEPTH = 100
"""Nested groups of unknown fields; the limit of the protobuf parsers."""

_BLOCK = 1 << 16
"""Values, or bytes, that are converted at once: the temporary arrays stay small."""

_NOTHING = memoryview(b"")
_ONE_BYTE = [bytes([value]) for value in range(0x80)]


class MalformedRequest(Internal):
    """Bytes that are no message of the expected type.

    INTERNAL is what a gRPC server of TF Serving answers when the request cannot be parsed.
    """


def read_varint(data: memoryview, pos: int) -> tuple[int, int]:
    """The unsigned 64-bit varint at `pos` and the position after it. Bits past the 64th are dropped.

    Raises IndexError where the data ends within it, MalformedRequest where it is longer than ten bytes.
    """
    byte = data[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    result = byte & 0x7F
    for shift in range(7, 70, 7):
        byte = data[pos]
        pos += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, pos
    raise MalformedRequest("Malformed protobuf message: a varint is longer than 10 bytes.")


def fields(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Every field of a message as (tag, varint, view), in the order of the bytes.

    The tag is the field number shifted left by three with the wire type. A varint field has its value in `varint`,
    every other its bytes in `view`, which shares memory with `data`. Groups, which proto3 lacks, are skipped.
    Raises MalformedRequest.
    """
    pos, end = 0, len(data)
    try:
        while pos < end:
            tag, pos = read_varint(data, pos)
            kind = tag & 7
            if not 8 <= tag <= 0xFFFFFFFF:
                raise MalformedRequest(f"Malformed protobuf message: {tag} is no field tag.")
            if kind == LEN:
                length, pos = read_varint(data, pos)
                start, pos = pos, pos + length
                value = (tag, 0, data[start:pos])
            elif kind == VARINT:
                number, pos = read_varint(data, pos)
                value = (tag, number, _NOTHING)
            elif kind in _FIXED_WIDTH:
                start, pos = pos, pos + _FIXED_WIDTH[kind]
                value = (tag, 0, data[start:pos])
            else:
                pos = _skip_group(data, pos, tag)
                continue
            if pos > end:
                raise IndexError
            yield value
    except IndexError:
        raise MalformedRequest(f"Malformed protobuf message: it ends within a field, after {end} bytes.") from None


def _skip_group(data: memoryview, pos: int, tag: int) -> int:
    """The position after the group that the START_GROUP `tag` opened just before `pos`."""
    open_groups: list[int] = []
    while True:
        kind, number = tag & 7, tag >> 3
        if kind == START_GROUP and len(open_groups) < _MAX_GROUP_DEPTH:
            open_groups.append(number)
        elif kind == END_GROUP and open_groups and open_groups[-1] == number:
            open_groups.pop()
            if not open_groups:
                return pos
        elif kind == LEN:
            length, pos = read_varint(data, pos)
            pos += length
        elif kind == VARINT:
            _, pos = read_varint(data, pos)
        elif kind in _FIXED_WIDTH:
            pos += _FIXED_WIDTH[kind]
        else:
            raise MalformedRequest(f"Malformed protobuf message: wire type {kind} of field {number} is not valid here.")
        tag, pos = read_varint(data, pos)


def text(view: memoryview) -> str:
    """A proto3 string field. Raises MalformedRequest where it is not UTF-8, as every protobuf parser does."""
    try:
        return str(view, "utf-8")
    except UnicodeDecodeError:
        raise MalformedRequest("Malformed protobuf message: a string field is not valid UTF-8.") from None


def signed(value: int, bits: int = 64) -> int:
    """The low `bits` of an unsigned varint value as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def encode_varint(value: int) -> bytes:
    """One varint; a negative value takes ten bytes, as protobuf writes it."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def length_delimited(tag: int, payload: bytes) -> bytes:
    """A LEN field with its tag and its length."""
    return encode_varint(tag) + encode_varint(len(payload)) + payload


def decode_varints(data: memoryview, dtype: str = "<u8") -> NDArray[Any]:
    """The values of a packed varint field as `dtype`; wider ones wrap around. Raises MalformedRequest."""
    raw = np.frombuffer(data, np.uint8)
    if not len(raw) or raw.max() < 0x80:
        return raw.astype(dtype)
    if raw[-1] >= 0x80:
        raise MalformedRequest("Malformed protobuf message: a packed field ends within a value.")
    return np.concatenate([_decode_block(block).astype(dtype) for block in _blocks(raw)])


def _blocks(raw: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """Pieces that each end with a whole varint and are small enough for the processor's cache."""
    start = 0
    while start < len(raw):
        stop = min(start + _BLOCK, len(raw))
        while raw[stop - 1] >= 0x80:
            stop += 1
        yield raw[start:stop]
        start = stop


def _decode_block(raw: NDArray[np.uint8]) -> NDArray[np.uint64]:
    ends = np.flatnonzero(raw < 0x80)
    lengths = np.diff(ends, prepend=-1)
    starts = ends - lengths + 1
    longest = int(lengths.max())
    if longest > 10:
        raise MalformedRequest("Malformed protobuf message: a varint is longer than 10 bytes.")
    values: NDArray[np.uint64] = (raw[starts] & 0x7F).astype(np.uint64)
    for index in range(1, longest):
        longer = np.flatnonzero(lengths > index)
        septets = (raw[starts[longer] + index] & 0x7F).astype(np.uint64)
        values[longer] |= septets << np.uint64(7 * index)
    return values


def encode_varints(values: NDArray[np.uint64]) -> bytes:
    """`values` as the payload of a packed varint field, each in its shortest form."""
    if not len(values) or values.max() < 0x80:
        return values.astype(np.uint8).tobytes()
    return b"".join([_encode_block(values[start : start + _BLOCK]) for start in range(0, len(values), _BLOCK)])


def _encode_block(values: NDArray[np.uint64]) -> bytes:
    lengths = np.ones(len(values), np.int64)
    for index in range(1, 10):
        lengths += values >= np.uint64(1 << (7 * index))
    offsets = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for index in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > index)
        septets = (values[longer] >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
        more = (lengths[longer] > index + 1).astype(np.uint8) << 7
        out[offsets[longer] + index] = septets | more
    return out.tobytes()
