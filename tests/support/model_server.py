"""`tensorflow_model_server` as a child process, the way TF Serving's own tests and people's scripts start it.

    with ModelServer(tmp_path, f"--model_base_path={tmp_path}/half") as server:
        server.grpc, server.rest            # HOST:PORT each

Temporary files, the private state directory among them, lie in the directory given; what belongs to one server is found
by that path.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import processes
from tests.support.bridge_server import free_ports
from tests.support.processes import Process
from tests.support.tritonserver import DIE_WITH_PARENT

READY_LINE = "Running gRPC ModelServer at "
READY_SECONDS = 60.0
END_SECONDS = 20.0

_COMMAND = """#!{python}
import sys
from bridge.cli.tensorflow_model_server import main
sys.argv[0] = "tensorflow_model_server"
main()
"""


def command(directory: Path) -> Path:
    """The command, made as an installer makes it, in a directory that can be put on PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "tensorflow_model_server"
    if not path.exists():
        path.write_text(_COMMAND.format(python=sys.executable))
        path.chmod(0o755)
    return path


def run(directory: Path, *flags: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, as one that prints or fails does."""
    return subprocess.run(
        [command(directory / "bin"), *flags],
        env={**_environment(directory), **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
    )


class ModelServer:
    """One server on free ports, ready when its log says so. Start it on the main thread."""

    def __init__(self, directory: Path, *flags: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.ports = dict(zip(("port", "rest_api_port"), free_ports(2), strict=True))
        self.flags = [f"--{name}={port}" for name, port in self.ports.items()] + list(flags)
        self.log = directory / "stderr"
        self.output = directory / "stdout"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def grpc(self) -> str:
        return f"localhost:{self.ports['port']}"

    @property
    def rest(self) -> str:
        return f"localhost:{self.ports['rest_api_port']}"

    def launch(self) -> Self:
        """Start without waiting, and without a fork of this process (see `BridgeServer.launch`)."""
        with self.output.open("wb") as output, self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid()), *self._command()],
                env=_environment(self.directory),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
            )
        return self

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while READY_LINE not in self.log.read_text():
            ended = self._running().poll()
            assert ended is None, f"the server ended with {ended}: {self.output.read_text()}\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"not ready after {seconds:g} s:\n{self.log.read_text()}"
            time.sleep(0.02)

    def wait(self, seconds: float = END_SECONDS) -> int:
        """The exit code."""
        return self._running().wait(seconds)

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self._running().send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """kill -9 of the serving process alone, as TF Serving's tests end theirs."""
        self._running().kill()
        self._running().wait(END_SECONDS)

    def processes(self) -> list[Process]:
        """What is alive of this server: itself, its tritonserver, the stubs."""
        return processes.naming(f"{self.directory}/")

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
        for process in self.processes():
            process.kill()
        if self._process is not None:
            self._process.wait(END_SECONDS)

    def __enter__(self) -> Self:
        try:
            self.launch().wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if error is not None:
            print(f"--- {self.log}:\n{self.log.read_text()[-4000:]}")

    def _command(self) -> list[str]:
        return [str(command(self.directory / "bin")), *self.flags]

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process


def _environment(directory: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BRIDGE_")}
    temporary = directory / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return {**clean, "TMPDIR": str(temporary)}
