"""Runners of a dead Triton that still run: stubs, and engine processes.

Both watch their Triton and end by 2 s after it, all but one that is stopped or stuck in a call that never returns.
"""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

logger = logging.getLogger(__name__)

STUB = "triton_python_backend_stub"
ENGINE = "engine.py"
PROCESSES = Path("/proc")


def kill(shared_memory_prefix: str) -> list[int]:
    """SIGKILL every runner whose shared memory has this prefix; returns their process numbers.

    The prefix belongs to one state directory, and the caller holds that directory's lock and runs no Triton.
    """
    killed = []
    for process in PROCESSES.glob("[0-9]*"):
        if _is_runner(process, shared_memory_prefix) and _killed(int(process.name)):
            killed.append(int(process.name))
    return sorted(killed)


def _is_runner(process: Path, shared_memory_prefix: str) -> bool:
    try:
        program, *arguments = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return False
    if _is_killed(process):
        return False
    is_runner = os.path.basename(program) == STUB or any(os.path.basename(word) == ENGINE for word in arguments)
    return is_runner and any(word.startswith(shared_memory_prefix) for word in arguments)


def _is_killed(process: Path) -> bool:
    """Whether SIGKILL waits for the process already: Triton's end is the end of its process group."""
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return False
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(signals & 1 << signal.SIGKILL - 1 for signals in pending)


def _killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    except PermissionError:
        logger.warning("Process %d of a dead Triton belongs to another user and stays.", pid)
        return False
    return True
