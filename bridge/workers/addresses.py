"""The addresses that workers share: ports by SO_REUSEPORT, a Unix socket by a symbolic link to that of one of them."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from bridge.http_server import HttpBindError
from bridge.transport.server import GrpcBindError


class ReservedPorts:
    """Keeps ports for processes of this user that share them: nobody else gets one while workers come and go."""

    def __init__(self) -> None:
        self._holders: list[socket.socket] = []

    def reserve(self, host: str, port: int) -> int:
        """The port. Raises OSError where anybody serves on it already, also one who would share it."""
        holder = socket.socket(socket.AF_INET)
        self._holders.append(holder)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
        # From here on only who shares the port can bind it; connections that are still closing were no hindrance.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        return port

    def close(self) -> None:
        for holder in self._holders:
            holder.close()


class ReservedGrpc:
    """Addresses that the gRPC servers of workers will have."""

    def __init__(self, ports: ReservedPorts) -> None:
        self._ports = ports

    async def start(self, *addresses: str) -> int:
        """The port of the first one. Raises GrpcBindError."""
        ports = [self._reserve(address) for address in addresses]
        return ports[0]

    async def stop(self, grace: float) -> None:
        """They stay reserved until the ports are closed."""

    def _reserve(self, address: str) -> int:
        kind, _, rest = address.rpartition(":")
        try:
            if kind == "unix":
                _check_socket(rest)
                return 0
            return self._ports.reserve(kind, int(rest))
        except OSError as error:
            raise GrpcBindError(address) from error


class ReservedRest:
    """The address that the REST servers of workers will have."""

    def __init__(self, ports: ReservedPorts) -> None:
        self._ports = ports

    async def start(self, host: str, port: int) -> int:
        """The port. Raises HttpBindError."""
        try:
            return self._ports.reserve(host, port)
        except OSError as error:
            raise HttpBindError(host, port, error) from error

    async def stop(self, grace: float) -> None:
        """It stays reserved until the ports are closed."""


class SharedSocket:
    """A Unix socket at `path` that leads to the socket of one worker at a time; each has its own beside it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._target: int | None = None
        self._used: set[str] = set()

    def of(self, number: int) -> str:
        """The path on which worker `number` serves."""
        return f"{self._path}.{number}"

    def offer(self, number: int) -> None:
        """Worker `number` serves. Raises OSError where the link cannot be made."""
        self._used.add(self.of(number))
        if self._target is None:
            self._lead_to(number)

    def withdraw(self, number: int, others: Sequence[int]) -> None:
        """Worker `number` is gone; clients are led to one of `others` from now on, or to the next that is offered."""
        if self._target == number:
            self._target = None
            if others:
                self._lead_to(others[0])

    def close(self) -> None:
        """No worker serves any more: nothing of theirs is left."""
        for path in (self._path, *map(Path, self._used)) if self._used else ():
            path.unlink(missing_ok=True)

    def _lead_to(self, number: int) -> None:
        new = f"{self._path}.new"
        Path(new).unlink(missing_ok=True)
        os.symlink(os.path.basename(self.of(number)), new)
        os.replace(new, self._path)
        self._target = number


def _check_socket(path: str) -> None:
    """Raises OSError where a socket cannot be put; one that is there is replaced, as by a single server."""
    if not os.access(os.path.dirname(path) or ".", os.W_OK | os.X_OK):
        raise PermissionError(path)
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode) and not stat.S_ISLNK(mode):
        raise FileExistsError(path)
