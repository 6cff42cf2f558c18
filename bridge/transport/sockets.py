"""Listening sockets of a server that accepts its connections itself."""

from __future__ import annotations

import contextlib
import os
import socket
import stat

from bridge.transport.server import GrpcBindError

BACKLOG = 4096
UNIX = "unix:"


def listen(address: str, *, reuse_port: bool = False) -> socket.socket:
    """A socket that listens on `host:port` or `unix:path`; a socket file that is there is replaced.

    Raises GrpcBindError.
    """
    try:
        return _unix(address[len(UNIX) :]) if address.startswith(UNIX) else _tcp(address, reuse_port=reuse_port)
    except (OSError, ValueError) as error:
        raise GrpcBindError(address) from error


class SocketFile:
    """The file of a Unix socket that listens."""

    def __init__(self, address: str) -> None:
        self._path = address[len(UNIX) :]
        self._identity = self._found()

    def remove(self) -> None:
        """Take the file away, unless another server put its own in its place."""
        if self._identity is not None and self._found() == self._identity:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _found(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            status = os.stat(self._path)
            return status.st_dev, status.st_ino
        return None


def peer_name(address: object) -> str:
    """gRPC's name of the other end, from the address that the socket gives for it."""
    if not isinstance(address, tuple):
        return UNIX
    host, port = address[:2]
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _tcp(address: str, *, reuse_port: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    family, _, _, _, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    listener = socket.create_server(
        target[:2],
        family=family,
        backlog=BACKLOG,
        reuse_port=reuse_port,
        dualstack_ipv6=family == socket.AF_INET6 and target[0] == "::",
    )
    # Connections inherit both.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return listener


def _unix(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
