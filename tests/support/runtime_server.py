"""`bridge runtime` as a child process, with a state directory and a log of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import processes
from tests.support.processes import Process
from tests.support.tritonserver import DIE_WITH_PARENT
from tests.support.waiting import wait_for

LISTENING = re.compile(r"^LISTENING (\S+)$", re.MULTILINE)
STUB = "triton_python_backend_stub"


class RuntimeServer:
    """One sidecar; state directory and flags stay over its lives. Start it on the main thread."""

    def __init__(self, directory: Path, *flags: str, listen: str = "127.0.0.1:0") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.state_dir = directory / "state"
        self.log = directory / "runtime.log"
        self.address = ""
        self._flags = [f"--listen={listen}", f"--state_dir={self.state_dir}", *flags]
        self._output = directory / "runtime.out"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start and wait until it listens."""
        bridge = str(Path(sys.executable).with_name("bridge"))
        command = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid()), bridge, "runtime", *self._flags]
        with self._output.open("wb") as output, self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=log)
        self.address = wait_for(self._listening, 20, "the sidecar listens")
        return self

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(20)

    def kill(self) -> None:
        """kill -9 of the sidecar alone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(20)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
        wait_for(self._killed_all, 20, "every process of the sidecar ended")
        identity = self.state_dir / "identity"
        if identity.exists():
            for left in Path("/dev/shm").glob(f"bridge_{identity.read_text().split()[0]}_*"):
                left.unlink(missing_ok=True)

    @property
    def runners(self) -> list[Process]:
        """The processes that hold models of its own Triton."""
        return [process for process in processes.naming(str(self.state_dir)) if process.program == STUB]

    @property
    def models(self) -> list[str]:
        """The model directories in the repository of its own Triton."""
        return sorted(path.name for path in (self.state_dir / "repository").glob("mm.*"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _listening(self) -> str:
        assert self._process is not None
        ended = self._process.poll()
        assert ended is None, f"the sidecar ended with {ended}:\n{self.log.read_text()[-4000:]}"
        found = LISTENING.search(self._output.read_text())
        return found[1] if found else ""

    def _killed_all(self) -> bool:
        alive = processes.naming(str(self.state_dir))
        for process in alive:
            process.kill()
        return not alive
