"""`bridge serve` as a child process: free ports, a state directory and a log of its own.

    with BridgeServer(tmp_path, "--model_name=half", f"--model_base_path={tmp_path}/half") as server:
        server.grpc, server.rest, server.admin            # HOST:PORT each
        server.get_json("/api/v1/models")
        server.kill(); server.start()                     # the same ports, state and flags

Everything that it started has ended when the block is left.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support import processes
from tests.support.processes import Process
from tests.support.tritonserver import DIE_WITH_PARENT, free_ports
from tests.support.waiting import wait_for

READY_SECONDS = 60.0
END_SECONDS = 20.0
STUB = "triton_python_backend_stub"
ENGINE = "engine.py"
READY = re.compile(r"^READY grpc=(\d+) rest=(\d+)$", re.MULTILINE)


class HttpAnswer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of an error answer."""
        return str(self.json["error"])


class BridgeServer:
    """One server; ports, state directory and flags stay over its lives. Start it on the main thread."""

    def __init__(
        self,
        directory: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (str(Path(sys.executable).with_name("bridge")),),
    ) -> None:
        """`program` is the command that `serve` and the flags are added to."""
        directory.mkdir(parents=True, exist_ok=True)
        self.state_dir = directory / "state"
        self.log = directory / "bridge.log"
        self.flags = list(flags)
        names = ("port", "rest_api_port", "admin_port", "modelmesh_port")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._program = program
        self._environment = {**os.environ, **(environment or {})}
        self._output = directory / "bridge.out"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports['port']}"

    @property
    def rest(self) -> str:
        return f"127.0.0.1:{self.ports['rest_api_port']}"

    @property
    def admin(self) -> str:
        return f"127.0.0.1:{self.ports['admin_port']}"

    @property
    def modelmesh(self) -> str:
        return f"127.0.0.1:{self.ports['modelmesh_port']}"

    @property
    def process(self) -> Process:
        """The serving process."""
        pid = self._running().pid
        [found] = [process for process in self.processes() if process.pid == pid]
        return found

    def launch(self) -> Self:
        """Start without waiting for READY.

        Without a fork of this process: where it has gRPC channels, gRPC's threads may abort a forked child before it
        becomes the server.
        """
        assert self._process is None or self._process.poll() is not None, "the server runs already"
        command = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid())]
        command += [*self._program, "serve", f"--state_dir={self.state_dir}"]
        command += [f"--{name}={port}" for name, port in self.ports.items()] + self.flags
        self._output.write_bytes(b"")
        with self._output.open("ab") as output, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=self._environment,
            )
        return self

    def start(self, seconds: float = READY_SECONDS) -> Self:
        """Start and wait for READY. Fails with the end of the log."""
        self.launch()
        self.wait_ready(seconds)
        return self

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not READY.search(self._output.read_text()):
            ended = self._running().poll()
            assert ended is None, f"the server ended with {ended}:\n{self.tail()}"
            assert time.monotonic() < deadline, f"the server is not ready after {seconds:g} s:\n{self.tail()}"
            time.sleep(0.01)

    def signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def wait(self, seconds: float = END_SECONDS) -> int:
        """The exit code of the serving process."""
        return self._running().wait(seconds)

    def terminate(self, seconds: float = END_SECONDS) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """kill -9 of the serving process alone."""
        self._running().kill()
        self._running().wait(END_SECONDS)

    def close(self) -> None:
        """End the server and whatever it started at once, and remove the shared memory that this leaves."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_SECONDS)
        wait_for(self._killed_all, END_SECONDS, "every process of the server ended")
        for left in self.shared_memory():
            left.unlink(missing_ok=True)

    def processes(self) -> list[Process]:
        """Everything alive that belongs to this server: itself, its tritonserver, the stubs."""
        return processes.naming(str(self.state_dir))

    @property
    def triton(self) -> Process:
        """The embedded tritonserver."""
        [found] = [process for process in self.processes() if process.program == "tritonserver"]
        return found

    @property
    def stubs(self) -> list[Process]:
        """The runners' processes."""
        return [process for process in self.processes() if process.program == STUB]

    @property
    def engines(self) -> list[Process]:
        """The processes that run the SavedModels of a device."""
        return [process for process in processes.naming(self._shared_memory_prefix) if ENGINE in process.command]

    def shared_memory(self) -> list[Path]:
        """The files in /dev/shm that this server's Triton made."""
        identity = self.state_dir / "identity"
        return sorted(Path("/dev/shm").glob(f"{self._shared_memory_prefix}*")) if identity.exists() else []

    @property
    def _shared_memory_prefix(self) -> str:
        return f"bridge_{(self.state_dir / 'identity').read_text().split()[0]}_"

    def log_lines(self, *parts: str) -> list[str]:
        """The log's lines that hold all of `parts`, of all lives."""
        return [line for line in self.log.read_text().splitlines() if all(part in line for part in parts)]

    def wait_for_log(self, *parts: str, seconds: float = 20.0) -> list[str]:
        """The log's lines that hold all of `parts`, once there are some."""
        return wait_for(lambda: self.log_lines(*parts), seconds, f"the log says {parts}")

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text().splitlines()[-lines:])

    def request(
        self,
        method: str,
        target: str,
        body: bytes | str = b"",
        *,
        to: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """One HTTP request to the REST port, or to HOST:PORT `to`."""
        connection = http.client.HTTPConnection(to or self.rest, timeout=30)
        try:
            connection.request(method, target, body, dict(headers or {}))
            response = connection.getresponse()
            return HttpAnswer(response.status, response.read())
        finally:
            connection.close()

    def get_json(self, target: str) -> Any:
        """What the admin API answers."""
        answer = self.request("GET", target, to=self.admin)
        assert answer.status == 200, answer
        return answer.json

    def change(self, method: str, target: str, body: Any = None) -> HttpAnswer:
        """A changing call of the admin API."""
        return self.request(method, target, b"" if body is None else json.dumps(body), to=self.admin)

    def events(self, **filters: str | int) -> list[dict[str, Any]]:
        """The history, oldest first."""
        query = urllib.parse.urlencode({"limit": 1000, **filters})
        events: list[dict[str, Any]] = self.get_json(f"/api/v1/events?{query}")["events"]
        return events[::-1]

    def changes(self, subject: str) -> list[dict[str, Any]]:
        """The history of a subject, but for what it resolved to, oldest first."""
        return [event for event in self.events(subject=subject) if event["action"] != "live moved"]

    def states(self, model: str) -> dict[int, str]:
        """The states of a model's versions as REST shows them; empty where the model has none."""
        answer = self.request("GET", f"/v1/models/{model}")
        if answer.status == 404:
            return {}
        return {int(row["version"]): row["state"] for row in answer.json["model_version_status"]}

    def wait_for_states(self, model: str, states: Mapping[int, str], seconds: float = 20.0) -> None:
        """Wait until exactly these versions are known, in these states."""
        try:
            wait_for(lambda: self.states(model) == states, seconds, f"{model} is {states}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.states(model)}:\n{self.tail()}") from None

    def wait_for_instances(self, seconds: float = 30.0) -> None:
        """Wait until every Triton is up; with no model configured READY does not wait for that."""
        wait_for(self._instances_up, seconds, "every Triton is up")

    def _instances_up(self) -> bool:
        states = [item["state"] for item in self.get_json("/api/v1/instances")["instances"]]
        return bool(states) and set(states) == {"up"}

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if error is not None:
            print(f"--- end of {self.log}:\n{self.tail()}")

    def _killed_all(self) -> bool:
        left = self.processes()
        for process in left:
            process.kill()
        return not left

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process
