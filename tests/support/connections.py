"""Which process has the other end of a TCP connection on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.processes import Process

_TABLES = ("tcp", "tcp6")
_ESTABLISHED = "01"


def served(process: Process, port: int) -> frozenset[int]:
    """The ports of the clients that `process` is connected with on its own `port`."""
    sockets = _sockets(process.pid)
    return frozenset(remote for inode, local, remote in _connections(process.pid) if local == port and inode in sockets)


def server_of(processes: Iterable[Process], port: int, client_port: int) -> Process | None:
    """Which of `processes` serves the client at `client_port` on `port`."""
    return next((process for process in processes if client_port in served(process, port)), None)


def clients(pid: int, port: int) -> frozenset[int]:
    """The own ports of the connections of process `pid` to `port`."""
    sockets = _sockets(pid)
    return frozenset(local for inode, local, remote in _connections(pid) if remote == port and inode in sockets)


def _connections(pid: int) -> Iterator[tuple[str, int, int]]:
    """Inode, local port and remote port of each."""
    for table in _TABLES:
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _ESTABLISHED:
                yield fields[9], _port(fields[1]), _port(fields[2])


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _sockets(pid: int) -> frozenset[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    return frozenset(found)
