"""Raw frames of HTTP/2, for what no client would send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8

GRPC = (("content-type", "application/grpc"), ("te", "trailers"))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def fields(pairs: Sequence[tuple[str, str]]) -> bytes:
    """A header block of literals, without index and without compression."""
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in pairs)


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    assert len(data) < 127 + 128
    return (bytes([len(data)]) if len(data) < 127 else bytes([127, len(data) - 127])) + data


def request(path: str, *pairs: tuple[str, str], method: str = "POST") -> bytes:
    """The header block of a call."""
    return fields([(":method", method), (":scheme", "http"), (":path", path), (":authority", "x"), *pairs])


def message(data: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, len(data)) + data


class Peer:
    """One connection that speaks in frames. The preface and empty settings are sent."""

    def __init__(self, port: int, first: bytes = PREFACE + frame(SETTINGS, 0, 0)) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._received = b""
        self.send(first)

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def call(self, stream: int, path: str, data: bytes, *pairs: tuple[str, str]) -> None:
        """A whole unary call."""
        self.send(frame(HEADERS, END_HEADERS, stream, request(path, *GRPC, *pairs)))
        self.send(frame(DATA, END_STREAM, stream, message(data)))

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """What the server sends, until it closes: kind, flags, stream and payload."""
        while True:
            while (frame := self._next_frame()) is not None:
                yield frame
            try:
                received = self._socket.recv(65536)
            except ConnectionResetError:
                return
            if not received:
                return
            self._received += received

    def _next_frame(self) -> tuple[int, int, int, bytes] | None:
        data = self._received
        size = 9 + int.from_bytes(data[:3])
        if len(data) < max(size, 9):
            return None
        self._received = data[size:]
        return data[3], data[4], int.from_bytes(data[5:9]), data[9:size]

    def until(self, kind: int, stream: int = 0, flags: int = 0) -> bytes:
        """The payload of the next such frame. Fails if the server closes before."""
        for found in self.frames():
            if (found[0], found[2]) == (kind, stream) and found[1] & flags == flags:
                return found[3]
        raise AssertionError("the server closed the connection")

    def closed(self) -> bool:
        """Whether the server closes the connection within the socket's timeout."""
        for _ in self.frames():
            pass
        return True

    def close(self) -> None:
        self._socket.close()
