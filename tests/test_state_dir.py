"""State directories: one live process each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.errors import Code, FailedPrecondition
from bridge.state_dir import ServerRecord, StateDir

HOLDER = """
import sys
from bridge.state_dir import StateDir
state = StateDir.private(__import__("pathlib").Path(sys.argv[2])) if sys.argv[1] == "private" else StateDir(sys.argv[2])
state.acquire()
state.write_server({"grpc": 8500})
print(state.path, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(kind: str, path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that holds a directory until it is killed."""
    command = [sys.executable, "-c", HOLDER, kind, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().rstrip())
        finally:
            process.kill()


def test_a_directory_in_use_is_refused_with_its_process(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    with holder("named", state.path) as (process, _):
        with pytest.raises(FailedPrecondition, match=f"'{state.path}' is in use by process {process.pid};") as raised:
            state.acquire()
        assert raised.value.code is Code.FAILED_PRECONDITION
        assert not state.held
    state.acquire()
    assert state.lock_path.read_text() == f"{os.getpid()}\n"
    state.release()


def test_acquire_is_repeatable_and_release_frees(tmp_path: Path) -> None:
    first, second = StateDir(tmp_path), StateDir(tmp_path)
    first.acquire()
    first.acquire()
    with pytest.raises(FailedPrecondition):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_a_child_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.acquire()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        state.release()
        again = StateDir(tmp_path)
        again.acquire()
        again.release()
        child.kill()


@pytest.mark.parametrize("taken", ["file", "file/below"])
def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path, taken: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FailedPrecondition, match=f"'{tmp_path / taken}' cannot be used: "):
        StateDir(tmp_path / taken).acquire()


def test_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = StateDir("bridge-state")
    assert state.database_path == tmp_path / "bridge-state" / "bridge.db"
    assert state.repository_path == tmp_path / "bridge-state" / "repository"
    assert not state.path.exists()
    state.acquire()
    assert state.path.stat().st_mode & 0o777 == 0o700
    state.release()


def test_the_server_record_counts_while_its_process_lives(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    assert state.read_server() is None
    with holder("named", tmp_path) as (process, _):
        assert state.read_server() == ServerRecord(process.pid, {"grpc": 8500})
        assert state.is_live()
    assert state.server_json.exists()
    assert state.read_server() is None
    assert not state.is_live()


def test_a_start_forgets_the_record_of_a_killed_server(tmp_path: Path) -> None:
    with holder("named", tmp_path):
        pass
    state = StateDir(tmp_path)
    state.acquire()
    assert state.read_server() is None
    state.release()


def test_the_server_record_goes_with_its_server(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.acquire()
    state.write_server({"grpc": 8500, "rest": 8501})
    assert state.read_server() == ServerRecord(os.getpid(), {"grpc": 8500, "rest": 8501})
    state.release()
    assert not state.server_json.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "ports": {}}', '{"pid": 1, "ports": []}'])
def test_a_damaged_server_record_is_named(tmp_path: Path, text: str) -> None:
    state = StateDir(tmp_path)
    state.acquire()
    state.server_json.write_text(text)
    with pytest.raises(FailedPrecondition, match=r"'.*server\.json' is not a server record"):
        state.read_server()
    state.release()


def test_the_prefix_stays_with_the_directory(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "a")
    first.acquire()
    prefix = first.shared_memory_prefix()
    assert prefix == StateDir(tmp_path / "a").shared_memory_prefix()
    assert prefix.startswith("bridge_")
    assert len(prefix) == len("bridge_") + 12 + 1
    first.release()
    (tmp_path / "a").rename(tmp_path / "b")
    assert StateDir(tmp_path / "b").shared_memory_prefix() == prefix
    shutil.copytree(tmp_path / "b", tmp_path / "copy")
    assert StateDir(tmp_path / "copy").shared_memory_prefix() != prefix
    assert StateDir(tmp_path / "b").shared_memory_prefix() == prefix


def test_a_private_directory_goes_with_its_process(tmp_path: Path) -> None:
    state = StateDir.private(tmp_path)
    assert state.held
    assert state.path.stat().st_mode & 0o777 == 0o700
    state.write_server({"grpc": 1})
    assert json.loads(state.server_json.read_text())["pid"] == os.getpid()
    state.release()
    assert list(tmp_path.iterdir()) == []


def test_private_directories_of_killed_processes_are_swept_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "triton-bridge-notes").mkdir()
    (tmp_path / "triton-bridge-file").touch()
    with holder("private", tmp_path) as (_, dead):
        pass
    left = Path("/dev/shm") / f"{StateDir(dead).shared_memory_prefix()}left"
    left.touch()
    with holder("private", tmp_path) as (_, live):
        state = StateDir.private(tmp_path)
        assert not dead.exists()
        assert not left.exists()
        assert live.exists()
        assert {path.name for path in tmp_path.iterdir()} == {
            "triton-bridge-notes", "triton-bridge-file", live.name, state.path.name
        }  # fmt: skip
        state.release()
