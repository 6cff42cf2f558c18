"""A child process that never outlives this one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bridge.triton.child_log import ChildLog

logger = logging.getLogger(__name__)

_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(125)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs in the child before the program: asks the kernel for SIGKILL at the parent's death, then checks that the parent
had not died before. A wrapper and not a preexec_fn, because Python code must not run between fork and exec of a process
that has threads."""


class Child:
    """A running program in a process group of its own, so that a terminal's Ctrl-C reaches only the bridge.

    The kernel ties "dies with its parent" to the thread that forks: a Child has to be made on the main thread.
    Processes that the program leaves behind in its group are killed when it ends. Without a `log` it writes where this
    process does. It inherits `descriptors`.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        cwd: Path,
        log: ChildLog | None = None,
        descriptors: Collection[int] = (),
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("a child that shall die with its parent has to be started on the main thread")
        wrapper = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
        self._process = subprocess.Popen(
            [*wrapper, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=None if log is None else subprocess.PIPE,
            stderr=None if log is None else subprocess.STDOUT,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
            pass_fds=tuple(descriptors),
        )
        if log is not None:
            assert self._process.stdout is not None
            log.follow(self._process.stdout)
        self._exit: concurrent.futures.Future[int] = concurrent.futures.Future()
        threading.Thread(target=self._watch, name=f"child {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the program runs."""
        return self._exit.result() if self._exit.done() else None

    async def wait(self) -> int:
        """The exit code, once the program has ended. Any number of tasks may wait; cancelling one stops nothing."""
        return await asyncio.shield(asyncio.wrap_future(self._exit))

    def join(self, timeout: float) -> int | None:
        """Block until the program ends, at most `timeout` seconds."""
        try:
            return self._exit.result(timeout)
        except concurrent.futures.TimeoutError:
            return None

    def terminate(self) -> None:
        """Ask the program alone to end; it takes its own children along."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the program and everything in its process group."""
        if self.poll() is None:
            _kill_group(self.pid)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _watch(self) -> None:
        # Somebody else may have reaped the program, such as a handler that waits for any child.
        with contextlib.suppress(ChildProcessError):
            # While the dead leader is not reaped its number cannot name another process or group.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            _kill_group(self.pid)
        code = self._process.wait()
        _reap_group(self.pid)
        self._exit.set_result(code)


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError) as error:
        logger.debug("Process group %d: %s", leader, error)


def _reap_group(leader: int) -> None:
    """Where this process is a container's first, the orphans of the group became its children."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-leader, 0)
