"""String tensors in Triton's BYTES framing: each element a 4-byte little-endian length followed by its bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_LENGTH = struct.Struct("<I")


def frame(items: Iterable[bytes | memoryview]) -> bytes:
    """The elements as one buffer in BYTES framing."""
    pack = _LENGTH.pack
    parts: list[bytes | memoryview] = []
    for item in items:
        parts.append(pack(len(item)))
        parts.append(item)
    return b"".join(parts)


def unframe(data: bytes | bytearray | memoryview) -> list[bytes]:
    """The elements of a buffer in BYTES framing. Raises ValueError where lengths and buffer disagree."""
    data = bytes(data)
    read = _LENGTH.unpack_from
    items: list[bytes] = []
    pos, end = 0, len(data)
    while pos < end:
        if pos + 4 > end:
            raise ValueError(f"The string tensor ends within a length, after {end} bytes.")
        start = pos + 4
        pos = start + read(data, pos)[0]
        items.append(data[start:pos])
    if pos != end:
        raise ValueError(f"The last string of the tensor is {pos - end} bytes short.")
    return items
