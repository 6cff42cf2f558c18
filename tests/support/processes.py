"""Processes of this machine that belong to one server, found by what their command lines name."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process, told from a later one of the same number by its start time."""

    pid: int
    started: int
    command: str

    @property
    def program(self) -> str:
        return os.path.basename(self.command.split(" ")[0])

    @property
    def alive(self) -> bool:
        return _start(self.pid) == self.started

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        self._send(signal.SIGKILL)

    def stop(self) -> None:
        """SIGSTOP: it lives and does nothing."""
        self._send(signal.SIGSTOP)

    def status(self, field: str) -> int:
        """A number of /proc/PID/status; sizes are in kB."""
        for line in (PROCESSES / str(self.pid) / "status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise KeyError(field)

    @property
    def cpu_seconds(self) -> float:
        """Processor time that it has used so far."""
        fields = (PROCESSES / str(self.pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def maps(self) -> str:
        """Every file and region that it has mapped, a line each."""
        return (PROCESSES / str(self.pid) / "maps").read_text()

    def _send(self, number: signal.Signals) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def naming(text: str) -> list[Process]:
    """The living processes with `text` somewhere in their command line, this one left out."""
    found = []
    for directory in PROCESSES.glob("[0-9]*"):
        pid = int(directory.name)
        with contextlib.suppress(OSError):
            command = (directory / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            started = _start(pid)
            if pid != os.getpid() and started is not None and text in command:
                found.append(Process(pid, started, command))
    return found


def _start(pid: int) -> int | None:
    """When a process started, in clock ticks; None where there is none or it waits for its parent only."""
    try:
        state, *fields = (PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])
