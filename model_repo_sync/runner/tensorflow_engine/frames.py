"""What runners and their engine process tell each other over a Unix socket: one frame asks, one answers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .dtypes import DType
from .feed import Array

HEADER = struct.Struct("<qIIQ")
"""Code, count of integers, bytes of text, bytes of data. Text and every part of the data are padded to 8 bytes."""

CHUNK = 1 << 16
ALIGNMENT = 8

Buffer = bytes | bytearray | memoryview


class EngineLost(Exception):
    """The other side is gone."""


class Frame(NamedTuple):
    """`code` 0 is well; otherwise `text` says why not."""

    code: int
    integers: tuple[int, ...]
    text: bytes
    data: memoryview


class Connection:
    """One end of a stream of frames, which one thread at a time uses."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    def send(self, code: int, text: bytes = b"", integers: Sequence[int] = (), parts: Sequence[Buffer] = ()) -> None:
        """Raises EngineLost."""
        size = sum([len(part) + -len(part) % ALIGNMENT for part in parts])
        head = HEADER.pack(code, len(integers), len(text), size)
        pieces: list[Buffer] = [head, struct.pack(f"<{len(integers)}q", *integers), *_padded((text, *parts))]
        try:
            if size < CHUNK:
                self._stream.sendall(b"".join(pieces))
            else:
                for piece in pieces:
                    self._stream.sendall(piece)
        except OSError as error:
            raise EngineLost(str(error)) from error

    def receive(self) -> Frame:
        """Raises EngineLost, also where the other side closed the stream in order."""
        begun = self._some()
        while len(begun) < HEADER.size:
            begun += self._some()
        content: Buffer = begun
        code, count, text_size, data_size = HEADER.unpack_from(begun)
        text = HEADER.size + 8 * count
        data = text + text_size + -text_size % ALIGNMENT
        if len(begun) < data + data_size:
            content = self._rest(begun, data + data_size)
        integers = struct.unpack_from(f"<{count}q", content, HEADER.size)
        view = memoryview(content)
        return Frame(code, integers, bytes(view[text : text + text_size]), view[data:])

    def close(self) -> None:
        """End the stream; whoever waits in `receive` on either side learns of it."""
        try:
            self._stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The other side was faster.
        self._stream.close()

    def _some(self) -> bytes:
        try:
            content = self._stream.recv(CHUNK)
        except OSError as error:
            raise EngineLost(str(error)) from error
        if not content:
            raise EngineLost("the stream ended")
        return content

    def _rest(self, begun: Buffer, size: int) -> memoryview:
        content = np.empty(size, np.uint8).data.cast("B")
        content[: len(begun)] = begun
        filled = len(begun)
        while filled < size:
            try:
                received = self._stream.recv_into(content[filled:])
            except OSError as error:
                raise EngineLost(str(error)) from error
            if not received:
                raise EngineLost("the stream ended")
            filled += received
        return content


def _padded(parts: Sequence[Buffer]) -> list[Buffer]:
    padded: list[Buffer] = []
    for part in parts:
        padded.append(part)
        if rest := -len(part) % ALIGNMENT:
            padded.append(bytes(rest))
    return padded


def pack(dtype: DType, array: Array) -> Buffer:
    """The elements of a contiguous array as a part of a frame: of strings first all sizes, then all bytes."""
    if dtype.is_string:
        values = array.ravel().tolist()
        return np.array([len(value) for value in values], np.int64).tobytes() + b"".join(values)
    return array.tobytes() if array.nbytes < CHUNK else array.reshape(-1).data.cast("B")


def unpack(dtype: DType, elements: int, part: memoryview) -> Array:
    """The flat array of `elements` wire elements that `pack` wrote. Numbers share the memory of `part`."""
    if not dtype.is_string:
        return np.frombuffer(part, dtype.numpy, elements) if elements else np.empty(0, dtype.numpy)
    ends = np.cumsum(np.frombuffer(part, np.int64, elements)) if elements else np.empty(0, np.int64)
    content = bytes(part[8 * elements :])
    array, start = np.empty(elements, object), 0
    for index, end in enumerate(ends.tolist()):
        array[index] = content[start:end]
        start = end
    return array
