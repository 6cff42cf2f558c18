"""Child processes that never outlive the bridge."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.triton.child import Child
from bridge.triton.child_log import ChildLog

PARENT = """
import sys
from pathlib import Path
from bridge.triton.child import Child
from bridge.triton.child_log import ChildLog
log = ChildLog(Path(sys.argv[1]) / "log", max_bytes=1000, backups=1)
print(Child(["/bin/sleep", "60"], environment={}, cwd=Path("/"), log=log).pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ChildLog]:
    one = ChildLog(tmp_path / "log", max_bytes=10_000, backups=1)
    yield one
    one.close()


def shell(log: ChildLog, script: str) -> Child:
    return Child(["/bin/sh", "-c", script], environment={"WORD": "hello"}, cwd=Path("/usr"), log=log)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until_gone(pid: int, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM), ("kill -KILL $$", -9)]
)
async def test_exit_codes(log: ChildLog, script: str, code: int) -> None:
    child = shell(log, script)
    assert await asyncio.wait_for(child.wait(), 5) == code
    assert child.poll() == code
    assert child.join(0) == code


def test_environment_directory_and_output(log: ChildLog) -> None:
    child = shell(log, "echo $WORD; pwd; echo problem >&2")
    assert child.join(5) == 0
    log.settle()
    assert log.tail() == ["hello", "/usr", "problem"]


async def test_waiting_can_be_given_up_and_repeated(log: ChildLog) -> None:
    child = shell(log, "exec sleep 60")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(child.wait(), 0.05)
    assert child.poll() is None
    waiters = [asyncio.ensure_future(child.wait()) for _ in range(3)]
    child.terminate()
    assert await asyncio.wait_for(asyncio.gather(*waiters), 5) == [-signal.SIGTERM] * 3
    child.terminate()
    child.kill()


def test_a_child_has_a_session_of_its_own(log: ChildLog) -> None:
    child = shell(log, "exec sleep 60")
    assert os.getsid(child.pid) == child.pid
    child.kill()
    assert child.join(5) == -signal.SIGKILL


def test_what_a_child_leaves_in_its_group_ends_with_it(log: ChildLog) -> None:
    child = shell(log, "sleep 60 & echo $!; exit 3")
    assert child.join(5) == 3
    log.settle()
    until_gone(int(log.tail()[0]))


def test_the_main_thread_is_needed(log: ChildLog) -> None:
    errors: list[str] = []

    def start() -> None:
        try:
            shell(log, "exit 0")
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert errors == ["a child that shall die with its parent has to be started on the main thread"]


def test_a_child_dies_with_its_killed_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    until_gone(child)
