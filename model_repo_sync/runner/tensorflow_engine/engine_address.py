"""Where the engine process of one device listens: a name that only processes of this machine see, and no file."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

from .errors import PlatformError

FORMAT = 1
"""Version of what runners and engine tell each other: those of different releases never meet."""

_CREDENTIALS = struct.Struct("=iII")
"""Process, user and group of SO_PEERCRED."""


def address(triton: int, device: int | None) -> str:
    """The name for the runners of the Triton with process number `triton` on a device, None for the CPU."""
    place = "cpu" if device is None else f"gpu{device}"
    return f"\0tensorflow_runner.{FORMAT}.{os.getuid()}.{triton}.{_start_time(triton)}.{place}"


def is_own_peer(stream: socket.socket) -> bool:
    """Whether the other side is of this process's user: anybody may take a name first, or call one."""
    credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.getuid())


def _start_time(process: int) -> str:
    """When a process started: with its number it names one for all times."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError as error:
        raise PlatformError(f"The process {process} of this runner's Triton cannot be seen: {error}") from error
