"""Runs `bridge serve` as a child on free ports and waits for its READY line."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 60.0
STOP_SECONDS = 45.0
READY = re.compile(r"READY grpc=(\d+) rest=(\d+)")


@dataclass(frozen=True)
class Server:
    """A server that is ready; its log is `log`."""

    process: subprocess.Popen[str]
    grpc: str
    rest: str
    admin: str
    log: Path


BRIDGE = Path(sys.executable).with_name("bridge")
"""The command of the environment that runs this."""


@contextmanager
def serving(state_dir: Path, flags: Sequence[str], *, program: Sequence[str] = (str(BRIDGE),)) -> Iterator[Server]:
    """A server with its state in `state_dir` and its log beside it, where it runs. SIGTERM has to end it with 0.

    `program` is the command before `serve`.

    Raises RuntimeError with the end of the log when it does not become ready or ends badly.
    """
    port, rest_port, admin_port = free_ports(3)
    log = state_dir.with_suffix(".log")
    command = [*program, "serve", f"--state_dir={state_dir}", *flags]
    ports = [f"--port={port}", f"--rest_api_port={rest_port}", f"--admin_port={admin_port}", "--modelmesh_port=0"]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*command, *ports], stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=state_dir.parent
        )
    try:
        _wait_ready(process, log)
        yield Server(process, f"localhost:{port}", f"localhost:{rest_port}", f"localhost:{admin_port}", log)
        process.terminate()
        if (code := process.wait(STOP_SECONDS)) != 0:
            raise RuntimeError(f"the server ended with {code}; its log ends in:\n{tail(log)}")
    finally:
        process.kill()
        process.communicate()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text().splitlines()[-lines:])


def _wait_ready(process: subprocess.Popen[str], log: Path) -> None:
    assert process.stdout is not None
    watchdog = threading.Timer(READY_SECONDS, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
    finally:
        watchdog.cancel()
    if not READY.fullmatch(line.strip()):
        raise RuntimeError(f"the server did not become ready; its log ends in:\n{tail(log)}")
