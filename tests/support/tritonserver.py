"""A real tritonserver of the nvidia-pytriton wheel for tests of the runner.

backends = backend_directory(tmp_path / "backends")
repository = tmp_path / "repository"
write_model(repository, "tfs.0.half_plus_two.1", saved_model, inputs={"x:0": 1}, outputs={"y:0": 1})
with TritonServer.start(backends, repository) as server:
    server.client().load_model("tfs.0.half_plus_two.1")
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import tritonclient.grpc as grpcclient
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from model_repo_sync import triton_config
from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from model_repo_sync.saved_model import read_saved_model
from model_repo_sync.triton_config import RunnerOptions
from tests.support import processes

RUNNER = Path(__file__).resolve().parents[2] / "model_repo_sync" / "runner"

INTER_OP_IN_CALLER = "28ffffffffffffffffff01"
"""ConfigProto with inter_op_parallelism_threads = -1: ops run in the thread that calls."""

DIE_WITH_PARENT = (
    "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9);"
    "os.getppid()==int(sys.argv[1]) or os._exit(1);os.execv(sys.argv[2],sys.argv[2:])"
)


def wheel_directory() -> Path:
    """`pytriton/tritonserver` of the nvidia-pytriton wheel, found without importing pytriton."""
    spec = importlib.util.find_spec("pytriton")
    assert spec is not None, "nvidia-pytriton is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent / "tritonserver"


def backend_directory(destination: Path, runner: Path = RUNNER) -> Path:
    """Lay out Triton's backend directory: the Python backend of the wheel and `runner` as `tensorflow_runner`."""
    wheel = wheel_directory()
    python = destination / "python"
    python.mkdir(parents=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(wheel / "backends/python/libtriton_python.so", python)
    stub = "triton_python_backend_stub"
    (python / stub).symlink_to(wheel / "python_backend_stubs" / version / stub)
    utils = "triton_python_backend_utils.py"
    (python / utils).symlink_to(wheel / "backends/python" / utils)
    (destination / "tensorflow_runner").symlink_to(runner, target_is_directory=True)
    return destination


def write_model(
    repository: Path,
    name: str,
    saved_model: Path | None,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    *,
    threads: int = 4,
    queue_size: int = 100,
    session_config: str = INTER_OP_IN_CALLER,
    kind: str = "KIND_CPU",
    runner: Mapping[str, Any] | None = None,
) -> Path:
    """Write a Triton model as no SavedModel describes it: any parameters, `inputs` and `outputs` (graph tensor names to
    dtypes); without `saved_model` a probe."""
    described = {"format": 1, "inputs": dict(inputs), "outputs": dict(outputs), "tags": ["serve"]}
    parameters = {
        "runner": json.dumps(runner or (described if saved_model else {"format": 1, "probe": True})),
        "session_config": session_config,
        "threads": str(threads),
        "queue_size": str(queue_size),
    }
    config = model_config_pb2.ModelConfig(name=name, backend="tensorflow_runner", max_batch_size=0)
    for side, tensors, extra in (
        (config.input, inputs, ("bridge.noop", "TYPE_UINT8")),
        (config.output, outputs, ("bridge.runner", "TYPE_STRING")),
    ):
        described_tensors = [(tensor, DTYPES[dtype % 100].config_type) for tensor, dtype in sorted(tensors.items())]
        for tensor, data_type in [*described_tensors, extra]:
            entry = side.add(name=tensor, data_type=model_config_pb2.DataType.Value(data_type), dims=[-1])
            if side is config.input:
                entry.optional = True
    config.instance_group.add(count=1, kind=model_config_pb2.ModelInstanceGroup.Kind.Value(kind))
    for key, value in parameters.items():
        config.parameters[key].string_value = value
    return _lay_out(repository / name, saved_model, text_format.MessageToString(config))


def write_saved_model(repository: Path, name: str, saved_model: Path, options: RunnerOptions) -> Path:
    """Write a Triton model as the product configures it."""
    config = triton_config.generate(name, read_saved_model(str(saved_model)), options)
    return _lay_out(repository / name, saved_model, config)


def _lay_out(directory: Path, saved_model: Path | None, config: str) -> Path:
    (directory / "1").mkdir(parents=True)
    if saved_model is not None:
        shutil.copytree(saved_model, directory / "1" / "model.savedmodel")
    (directory / "config.pbtxt").write_text(config)
    return directory


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@dataclass
class TritonServer:
    """A running server on loopback. Start it on the main thread: it dies with the thread that started it."""

    process: subprocess.Popen[bytes]
    grpc_port: int
    http_port: int
    log: Path
    directory: Path
    shm_prefix: str
    _clients: list[grpcclient.InferenceServerClient] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        backends: Path,
        repository: Path,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        ports: tuple[int, int] | None = None,
    ) -> TritonServer:
        """Start and wait until it serves; `ports` are those of gRPC and HTTP, free ones without it."""
        directory = Path(tempfile.mkdtemp(prefix="triton_test_"))
        (directory / "cwd").mkdir()
        (directory / "lib").mkdir()
        repository.mkdir(parents=True, exist_ok=True)
        grpc_port, http_port = ports or free_ports(2)
        shm_prefix = f"bridge_test_{uuid.uuid4().hex[:8]}_"
        command = [
            str(wheel_directory() / "bin/tritonserver"),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            "--model-control-mode=explicit",
            "--strict-readiness=false",
            "--disable-auto-complete-config",
            "--allow-metrics=false",
            "--http-address=127.0.0.1",
            f"--http-port={http_port}",
            "--grpc-address=127.0.0.1",
            f"--grpc-port={grpc_port}",
            f"--backend-config=python,shm-region-prefix-name={shm_prefix}",
            *flags,
        ]
        log = directory / "triton.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory / "cwd",
                env={**_environment(directory / "lib"), **(environment or {})},
            )
        server = cls(process, grpc_port, http_port, log, directory, shm_prefix)
        server._wait_until_ready()
        return server

    def client(self) -> grpcclient.InferenceServerClient:
        """A new client, closed with the server."""
        client = grpcclient.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self._clients.append(client)
        return client

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # A stub that was locked out of its shared memory by a kill outlives its Triton; its command names our prefix.
        for stub in processes.naming(self.shm_prefix):
            stub.kill()
        for leftover in Path("/dev/shm").glob(f"{self.shm_prefix}*"):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> TritonServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_ready(self, timeout: float = 20) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"tritonserver ended:\n{self.log.read_text()[-4000:]}"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.grpc_port), timeout=1):
                return
            time.sleep(0.02)
        raise AssertionError(f"tritonserver is not ready after {timeout} s:\n{self.log.read_text()[-4000:]}")


def _environment(library_directory: Path) -> dict[str, str]:
    """The stub finds Python by PATH and libpython by the loader's path, nothing else."""
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        name = str(sysconfig.get_config_var("INSTSONAME"))
        (library_directory / name).symlink_to(Path(str(sysconfig.get_config_var("LIBDIR"))) / name)
        environment["LD_LIBRARY_PATH"] = str(library_directory)
    return environment
