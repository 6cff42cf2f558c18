"""A tritonserver that tests of the transports kill and start again on its ports, with an `echo` model."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
import uuid
from pathlib import Path

from tests.support.tritonserver import DIE_WITH_PARENT, backend_directory, free_ports, wheel_directory

HERE = Path(__file__).parent
INTEGERS = ("UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64")
DATATYPES = ("BOOL", *INTEGERS, "FP16", "BF16", "FP32", "FP64", "BYTES")


class Tritonserver:
    """Explicit model control, the backends `python`, `tensorflow_runner` and `echo` (backends/echo/model.py)."""

    def __init__(self, directory: Path, *flags: str, auto_complete: bool = False) -> None:
        self.repository = directory / "models"
        self.repository.mkdir(parents=True)
        self.backends = backend_directory(directory / "backends")
        shutil.copytree(HERE / "backends" / "echo", self.backends / "echo")
        self.grpc_port, self.http_port = free_ports(2)
        self.flags = flags if auto_complete else ("--disable-auto-complete-config", *flags)
        self._directory = directory
        self._shm_prefix = f"bridge_test_{uuid.uuid4().hex[:8]}_"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def add_echo(self, name: str = "echo", *, queue_size: int = 0) -> None:
        """Write an echo model of every datatype; it waits to be loaded."""
        (self.repository / name / "1").mkdir(parents=True)
        (self.repository / name / "config.pbtxt").write_text(echo_config(name, queue_size))

    def start(self, *, wait: bool = True) -> None:
        cwd = self._directory / "cwd"
        cwd.mkdir(exist_ok=True)
        command = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid()), *self._command()]
        with (self._directory / "triton.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=cwd, env=_environment())
        if wait:
            self._wait_until_live()

    def kill(self) -> None:
        """SIGKILL, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)
        for leftover in Path("/dev/shm").glob(f"{self._shm_prefix}*"):
            leftover.unlink(missing_ok=True)

    def pause(self) -> None:
        """Make it hang: connections stay, nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return (self._directory / "triton.log").read_text(errors="replace")

    def _command(self) -> list[str]:
        return [
            str(wheel_directory() / "bin" / "tritonserver"),
            f"--model-repository={self.repository}",
            f"--backend-directory={self.backends}",
            "--model-control-mode=explicit",
            "--strict-readiness=false",
            "--allow-metrics=false",
            f"--backend-config=python,shm-region-prefix-name={self._shm_prefix}",
            "--exit-timeout-secs=2",
            "--grpc-address=127.0.0.1",
            f"--grpc-port={self.grpc_port}",
            "--http-address=127.0.0.1",
            f"--http-port={self.http_port}",
            *self.flags,
        ]

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process = None

    def _wait_until_live(self) -> None:
        deadline = time.monotonic() + 20
        while not self._is_live():
            assert self._process is not None
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def _is_live(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.http}/v2/health/live", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def echo_config(name: str, queue_size: int) -> str:
    timeout = f"default_timeout_microseconds: {10**13} allow_timeout_override: true timeout_action: REJECT"
    lines = [
        f'name: "{name}" backend: "echo" max_batch_size: 0',
        "instance_group [{ count: 1 kind: KIND_CPU }]",
        f"dynamic_batching {{ default_queue_policy {{ max_queue_size: {queue_size} {timeout} }} }}",
    ]
    for datatype in DATATYPES:
        kind = "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"
        lines.append(f'input {{ name: "in.{datatype}" data_type: {kind} dims: [-1] optional: true }}')
        lines.append(f'output {{ name: "out.{datatype}" data_type: {kind} dims: [-1] }}')
    return "\n".join(lines)


def _environment() -> dict[str, str]:
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        environment["LD_LIBRARY_PATH"] = str(sysconfig.get_config_var("LIBDIR"))
    return environment
