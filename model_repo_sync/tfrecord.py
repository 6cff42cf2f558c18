"""TensorFlow's TFRecord files: each record is its length, a checksum of that, its bytes, and a checksum of those.

Numbers are little-endian. A checksum is a CRC-32C, rotated and shifted so that records may hold records.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER_SIZE = _LENGTH.size + _CHECKSUM.size
_MASK_DELTA = 0xA282EAD8


class TFRecordError(ValueError):
    """A file that is no TFRecord file, or a damaged one; the text is that of TensorFlow's reader."""


def frame(record: bytes) -> bytes:
    """`record` as it stands in a file."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _checksum(length), record, _checksum(record)))


def read_records(file: BinaryIO) -> Iterator[bytes]:
    """The records of a regular file from its position on.

    As with TensorFlow's reader a header that is cut short is the end. Raises TFRecordError at the first damage.
    """
    end = os.stat(file.fileno()).st_size
    while (offset := file.tell()) + _HEADER_SIZE <= end:
        (length,) = _LENGTH.unpack(_checked(file, offset, _LENGTH.size))
        start = offset + _HEADER_SIZE
        if start + length + _CHECKSUM.size > end:
            raise TFRecordError(f"truncated record at {offset}' failed with Read less bytes than requested")
        yield _checked(file, start, length)


def _checked(file: BinaryIO, offset: int, size: int) -> bytes:
    """The next `size` bytes, which stand at `offset` and are followed by their checksum."""
    data = file.read(size)
    if file.read(_CHECKSUM.size) != _checksum(data):
        hint = "" if offset else " (Is this even a TFRecord file?)"
        raise TFRecordError(f"corrupted record at {offset}{hint}")
    return data


def _checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return _CHECKSUM.pack(((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)
