"""How a runner comes to the engine process of its device: by calling it, and starting it where nobody answers."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .engine_address import address, is_own_peer
from .errors import PlatformError
from .frames import EngineLost

if TYPE_CHECKING:
    import subprocess

SCRIPT = Path(__file__).resolve().parent.parent / "engine.py"
START_SECONDS = 30.0
POLL_SECONDS = 0.005
MOST_STARTS = 3


class EngineProcess:
    """The engine of a device, started by whichever runner of a Triton first finds none.

    It lives in the process group of Triton, outlives the runner that started it and ends with the last runner or with
    Triton, whichever is first.
    """

    def __init__(self, device: int | None) -> None:
        self._device = device
        self._triton = os.getppid()
        self._address = address(self._triton, device)
        self._child: subprocess.Popen[bytes] | None = None

    def connect(self) -> socket.socket:
        """A stream to the engine. Raises PlatformError where it cannot be started."""
        deadline = time.monotonic() + START_SECONDS
        starts = 0
        while (stream := self._stream()) is None:
            if self._child is None or self._child.poll() is not None:
                if starts == MOST_STARTS:
                    raise PlatformError("The engine process of this runner ends at once; Triton's log says why")
                starts += 1
                self._start()
            if time.monotonic() > deadline:
                raise PlatformError(f"The engine process of this runner does not listen after {START_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        return stream

    def call(self) -> socket.socket:
        """A stream to the engine that runs. Raises EngineLost where there is none."""
        stream = self._stream()
        if stream is None:
            raise EngineLost("nobody listens")
        return stream

    def _stream(self) -> socket.socket | None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.connect(self._address)
        except OSError:
            stream.close()
            return None
        if not is_own_peer(stream):
            stream.close()
            raise PlatformError("Another user listens where the engine process of this runner should")
        return stream

    def _start(self) -> None:
        """The last argument is for whoever looks for what a dead Triton left: it marks whose process this is."""
        # Only the runner that starts the engine pays for the import.
        import subprocess

        device = "cpu" if self._device is None else str(self._device)
        # Closed descriptors: Triton's ports must not live on in the engine.
        self._child = subprocess.Popen(
            [
                sys.executable or "python3",
                "-I",
                str(SCRIPT),
                self._address[1:],
                str(self._triton),
                device,
                _shared_memory_name(),
            ],
            stdin=subprocess.DEVNULL,
            close_fds=True,
        )


def _shared_memory_name() -> str:
    """The name of this stub's shared memory, which begins as its Triton was told: the stub's second argument."""
    arguments = Path("/proc/self/cmdline").read_bytes().split(b"\0")
    return arguments[2].decode("utf-8", "replace") if len(arguments) > 2 else ""
