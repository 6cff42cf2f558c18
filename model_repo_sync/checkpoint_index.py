"""Reader of `variables/variables.index`: which shards a checkpoint has and how long each must be.

The index is TensorFlow's copy of the LevelDB table format: blocks of prefix-compressed entries, an index block and a
48-byte footer. The entry of the empty key is a BundleHeaderProto, every other one a BundleEntryProto. TensorFlow writes
these tables uncompressed; block checksums are not verified, the footer at the end is what a truncated copy lacks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57
_VARINT_FIELDS = {"num_shards": 1, "shard_id": 3, "offset": 4, "size": 5}
_MAX_VARINT_BITS = 64


class CheckpointIndexError(Exception):
    """The file is not a complete checkpoint index; the text says what is wrong, without the path."""


class Shard(NamedTuple):
    """A shard's file name suffix, such as `data-00000-of-00001`, and the least size in bytes that it must have."""

    suffix: str
    size: int


class _BlockHandle(NamedTuple):
    offset: int
    size: int


def read_shards(path: str | Path) -> tuple[Shard, ...]:
    """The shards that the index at `path` names. Raises OSError and CheckpointIndexError."""
    return parse_shards(Path(path).read_bytes())


def parse_shards(table: bytes) -> tuple[Shard, ...]:
    """The shards that the bytes of an index name. Raises CheckpointIndexError."""
    try:
        return _shards(table)
    except (IndexError, struct.error) as error:
        raise CheckpointIndexError("is damaged") from error


def _shards(table: bytes) -> tuple[Shard, ...]:
    count = 0
    needed: dict[int, int] = {}
    for key, value in _entries(table):
        fields = _varint_fields(value)
        if not key:
            count = fields.get(_VARINT_FIELDS["num_shards"], 0)
            continue
        shard = fields.get(_VARINT_FIELDS["shard_id"], 0)
        end = fields.get(_VARINT_FIELDS["offset"], 0) + fields.get(_VARINT_FIELDS["size"], 0)
        needed[shard] = max(needed.get(shard, 0), end)
    if count < 1 or any(shard >= count for shard in needed):
        raise CheckpointIndexError("names no valid number of shards")
    return tuple(Shard(f"data-{shard:05d}-of-{count:05d}", needed.get(shard, 0)) for shard in range(count))


def _entries(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    for _, handle in _block_entries(table, _index_handle(table)):
        yield from _block_entries(table, _handle(handle, 0)[0])


def _index_handle(table: bytes) -> _BlockHandle:
    if len(table) < _FOOTER_BYTES or struct.unpack_from("<Q", table, len(table) - 8)[0] != _MAGIC:
        raise CheckpointIndexError("is truncated or not a checkpoint index")
    _, position = _handle(table, len(table) - _FOOTER_BYTES)
    return _handle(table, position)[0]


def _handle(data: bytes, position: int) -> tuple[_BlockHandle, int]:
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return _BlockHandle(offset, size), position


def _block_entries(table: bytes, handle: _BlockHandle) -> Iterator[tuple[bytes, bytes]]:
    end = handle.offset + handle.size
    if table[end] != 0:
        raise CheckpointIndexError("is compressed, which TensorFlow does not write")
    block = table[handle.offset : end]
    restarts = struct.unpack_from("<I", block, len(block) - 4)[0]
    limit = len(block) - 4 * (restarts + 1)
    key, position = b"", 0
    while position < limit:
        shared, position = _varint(block, position)
        unshared, position = _varint(block, position)
        length, position = _varint(block, position)
        key = key[:shared] + block[position : position + unshared]
        position += unshared
        yield key, block[position : position + length]
        position += length


def _varint_fields(message: bytes) -> dict[int, int]:
    """The varint fields of a serialized message, by number."""
    fields: dict[int, int] = {}
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        if tag & 7 == 0:
            fields[tag >> 3], position = _varint(message, position)
        else:
            position = _skip(message, position, tag & 7)
    return fields


def _skip(message: bytes, position: int, wire_type: int) -> int:
    if wire_type == 2:
        length, position = _varint(message, position)
        return position + length
    if wire_type in (1, 5):
        return position + (8 if wire_type == 1 else 4)
    raise CheckpointIndexError("is damaged")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < _MAX_VARINT_BITS:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise CheckpointIndexError("is damaged")
