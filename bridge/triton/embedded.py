"""A tritonserver of the bridge's own, run as its child process."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bridge.errors import Unavailable
from bridge.state_dir import StateDir
from bridge.triton import backends, environment, orphans, shared_memory_files
from bridge.triton.child import Child
from bridge.triton.child_log import ChildLog
from bridge.triton.endpoints import (
    LOOPBACK,
    Endpoints,
    free_endpoints,
    grpc_server_name,
    http_server_name,
    listening_ports,
)
from bridge.triton.wheel import Host, TritonWheel, locate

logger = logging.getLogger(__name__)

READY_SECONDS = 30.0
POLL_SECONDS = 0.02
PORT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """How the child runs. Sizes are bytes, times seconds."""

    gpu: bool = False
    """Whether the child sees the GPUs; without it it does not touch them."""
    metrics: bool = True
    """Whether it serves Prometheus metrics on a loopback port of its own."""
    load_threads: int = 4
    """How many models load at once."""
    exit_timeout: int = 10
    """How long a stopping Triton waits for requests in flight."""
    verbosity: int = 0
    """Triton's --log-verbose."""
    log_max_bytes: int = 10 * 1024 * 1024
    log_backups: int = 3
    flags: tuple[str, ...] = field(default_factory=tuple)
    """Further tritonserver flags, after the bridge's own."""


class EmbeddedFailure(Unavailable):
    """tritonserver ended or did not become ready; the message holds its last words."""


class EmbeddedTriton:
    """The tritonserver of the nvidia-pytriton wheel on loopback ports, in explicit model control.

    `start` and `restart` belong on the main thread: the kernel ends the child when the thread that started it ends.
    Addresses stay over a restart unless somebody else took a port meanwhile; `nonce` is new at each start and is the
    name that ServerMetadata shows, so that a client can tell this very process from any other server.
    """

    def __init__(
        self,
        state_dir: StateDir,
        repository: Path | None = None,
        settings: EmbeddedSettings | None = None,
        *,
        runner: Path | None = None,
        endpoints: Callable[[], Endpoints] = free_endpoints,
    ) -> None:
        """`state_dir` must be acquired. `repository` defaults to its own, `runner` (the directory of the backend's
        model.py) to model_repo_sync's."""
        self._state = state_dir
        self._repository = repository or state_dir.repository_path
        self._settings = settings or EmbeddedSettings()
        self._runner = runner or backends.runner_directory()
        self._choose_endpoints = endpoints
        self._endpoints: Endpoints | None = None
        self._wheel: TritonWheel | None = None
        self._environment: dict[str, str] = {}
        self._child: Child | None = None
        self._attempts = 0
        self._nonce = ""
        self._log = ChildLog(
            state_dir.triton_log_path, max_bytes=self._settings.log_max_bytes, backups=self._settings.log_backups
        )

    @property
    def grpc(self) -> str:
        """HOST:PORT of the gRPC service."""
        return self._placed().grpc

    @property
    def http(self) -> str:
        """HOST:PORT of the HTTP service."""
        return self._placed().http

    @property
    def metrics(self) -> str | None:
        """HOST:PORT of the Prometheus page, None where it is off."""
        return self._placed().metrics if self._settings.metrics else None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    @property
    def nonce(self) -> str:
        """What the running child answers as its server name."""
        return self._nonce

    @property
    def repository(self) -> Path:
        return self._repository

    @property
    def shared_memory_prefix(self) -> str:
        """Files in /dev/shm with this prefix are this state directory's and are removed at start and stop."""
        return self._state.shared_memory_prefix()

    def start(self) -> None:
        """Prepare the files, remove what a killed predecessor left, start the child; `wait_ready` comes next.

        Raises EmbeddedUnavailable where this host cannot run it, RuntimeError off the main thread.
        """
        if not self._state.held:
            raise RuntimeError("the state directory has to be acquired before its Triton starts")
        if self._child is not None and self._child.poll() is None:
            raise RuntimeError("the embedded Triton runs already")
        if self._wheel is None:
            self._wheel = self._prepare()
        self._clear_remains()
        self._attempts = 0
        self._spawn(self._wheel)

    def wait_ready(self, timeout: float = READY_SECONDS) -> None:
        """Block until the child serves. Where it could not bind a port it is started again on others.

        Raises EmbeddedFailure with Triton's last words when it ended or is not ready after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._serves():
            self._survive(deadline, timeout)
            time.sleep(POLL_SECONDS)

    async def ready(self, timeout: float = READY_SECONDS) -> None:
        """`wait_ready` for the event loop of the main thread."""
        deadline = time.monotonic() + timeout
        while not await asyncio.to_thread(self._serves):
            self._survive(deadline, timeout)
            await asyncio.sleep(POLL_SECONDS)

    def poll(self) -> int | None:
        """The child's exit code, negative for a signal; None while it runs."""
        return self._running().poll()

    async def wait(self) -> int:
        """The exit code of the child that runs now, once it has ended."""
        return await self._running().wait()

    def tail(self, lines: int = 20) -> list[str]:
        """Triton's last lines."""
        return self._log.tail(lines)

    async def restart(self, timeout: float = READY_SECONDS) -> None:
        """A new child in the place of the dead, or killed, one; returns when it serves. Its models are not loaded."""
        self.kill()
        await self.wait()
        self.start()
        await self.ready(timeout)

    async def stop(self, timeout: float | None = None) -> None:
        """End the child: SIGTERM, then SIGKILL after `timeout` seconds (default: a little over `exit_timeout`)."""
        if self._child is not None:
            await asyncio.to_thread(self.close, timeout)

    def close(self, timeout: float | None = None) -> None:
        """`stop` for synchronous callers."""
        if self._child is None:
            return
        self._child.terminate()
        patience = self._settings.exit_timeout + 2.0 if timeout is None else timeout
        if self._child.join(patience) is None:
            logger.warning("tritonserver did not end within %.1f s and is killed.", patience)
            self._child.kill()
            self._child.join(patience)
        self._clear_remains()
        self._log.close()

    def kill(self) -> None:
        """SIGKILL to tritonserver and its stubs; returns at once."""
        if self._child is not None:
            self._child.kill()

    def _prepare(self) -> TritonWheel:
        host = Host.current()
        wheel = locate(host)
        environment.check_path(self._state.path, "name another --state_dir")
        environment.check_path(self._repository, "name another repository directory")
        backends.build(self._state.backends_path, wheel, self._runner)
        self._repository.mkdir(parents=True, exist_ok=True)
        self._empty_cwd()
        libraries = self._state.triton_path / "lib"
        environment.link_libpython(libraries)
        self._environment = environment.build(host.executable, libraries, os.environ, gpu=self._settings.gpu)
        stub = self._state.backends_path / "python" / wheel.stub.name
        environment.preflight(stub, self._environment, self._cwd)
        return wheel

    @property
    def _cwd(self) -> Path:
        return self._state.triton_path / "cwd"

    def _empty_cwd(self) -> None:
        """The child's working directory is the first that its stubs import from, so nothing may lie there."""
        shutil.rmtree(self._cwd, ignore_errors=True)
        self._cwd.mkdir(parents=True, mode=0o700)

    def _spawn(self, wheel: TritonWheel) -> None:
        self._endpoints = self._endpoints or self._choose_endpoints()
        self._nonce = f"bridge-{secrets.token_hex(8)}"
        self._attempts += 1
        command = [str(wheel.tritonserver), *self._flags(self._endpoints)]
        self._child = Child(command, environment=self._environment, cwd=self._cwd, log=self._log)
        logger.info("Started tritonserver, process %d, gRPC %s, HTTP %s.", self._child.pid, self.grpc, self.http)

    def _flags(self, endpoints: Endpoints) -> list[str]:
        settings = self._settings
        return [
            f"--id={self._nonce}",
            f"--model-repository={self._repository}",
            "--model-control-mode=explicit",
            "--strict-readiness=false",
            "--disable-auto-complete-config",
            f"--backend-directory={self._state.backends_path}",
            f"--backend-config=python,shm-region-prefix-name={self.shared_memory_prefix}",
            f"--model-load-thread-count={settings.load_threads}",
            f"--exit-timeout-secs={settings.exit_timeout}",
            f"--grpc-address={LOOPBACK}",
            f"--grpc-port={endpoints.grpc_port}",
            f"--http-address={LOOPBACK}",
            f"--http-port={endpoints.http_port}",
            f"--allow-metrics={str(settings.metrics).lower()}",
            f"--metrics-address={LOOPBACK}",
            f"--metrics-port={endpoints.metrics_port}",
            f"--allow-gpu-metrics={str(settings.gpu).lower()}",
            *([] if settings.gpu else ["--pinned-memory-pool-byte-size=0"]),
            "--log-format=ISO8601",
            f"--log-verbose={settings.verbosity}",
            *settings.flags,
        ]

    def _serves(self) -> bool:
        """Whether the child itself holds its ports and answers with its nonce; no foreign server is asked before."""
        endpoints = self._placed()
        ports = {endpoints.grpc_port, endpoints.http_port}
        if self._settings.metrics:
            ports.add(endpoints.metrics_port)
        return (
            ports <= listening_ports(self._running().pid)
            and http_server_name(endpoints) == self._nonce
            and grpc_server_name(endpoints) == self._nonce
        )

    def _survive(self, deadline: float, timeout: float) -> None:
        """Between two looks at a child that does not serve yet: start another if it failed on a port, or give up."""
        code = self._running().poll()
        if code is None:
            if time.monotonic() >= deadline:
                raise EmbeddedFailure(f"tritonserver is not ready after {timeout:g} s; {self._last_words()}")
            return
        self._log.settle()
        if not self._port_was_taken() or self._attempts >= PORT_ATTEMPTS or self._wheel is None:
            raise EmbeddedFailure(f"tritonserver ended with {_exit_text(code)}; {self._last_words()}")
        logger.info("A loopback port was taken before tritonserver could bind it; other ports are tried.")
        self._endpoints = None
        self._spawn(self._wheel)

    def _port_was_taken(self) -> bool:
        return any("in use" in line for line in self._log.tail())

    def _last_words(self) -> str:
        lines = self._log.tail()
        errors = [line for line in lines if " E " in line]
        return f"its log '{self._log.path}' ends in: {(errors or lines or ['(nothing)'])[-1].strip()}"

    def _clear_remains(self) -> None:
        """Remove what a Triton of this state directory left that did not end in order."""
        killed = orphans.kill(self.shared_memory_prefix)
        if killed:
            logger.warning("Killed runner processes %s, which had outlived their Triton.", killed)
        removed = shared_memory_files.remove(self.shared_memory_prefix)
        if removed:
            logger.info("Removed %d shared-memory files that a killed Triton had left.", len(removed))

    def _placed(self) -> Endpoints:
        if self._endpoints is None:
            raise RuntimeError("the embedded Triton has not been started")
        return self._endpoints

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("the embedded Triton has not been started")
        return self._child


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
