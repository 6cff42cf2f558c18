"""Runners' processes, told from others by what they are called and whose children they are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.triton import stubs
from tests.support.waiting import wait_for


@pytest.fixture
def cat() -> Path:
    return Path("/bin/cat")


@pytest.fixture
def stub(tmp_path: Path, cat: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for ever and has a stub's command line."""
    program = tmp_path / stubs.STUB
    program.symlink_to(cat)
    model = tmp_path / "repository" / "tfs.0123abcd.m.1" / "1" / "model.py"
    model.parent.mkdir(parents=True)
    os.mkfifo(model)
    process = subprocess.Popen([program, model])
    yield process
    process.kill()
    process.wait()


def test_children_that_are_stubs(stub: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: stubs.models(os.getpid()) == {"tfs.0123abcd.m.1"}, 10, "the stub is seen")
    assert stubs.models(stub.pid) == set()


def test_dead_ones_are_not_seen_although_nobody_waited_for_them(stub: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: stubs.models(os.getpid()), 10, "the stub is seen")
    stub.kill()
    wait_for(lambda: not stubs.models(os.getpid()), 10, "the zombie is no runner")
    assert stub.returncode is None


def test_other_programs_are_none(tmp_path: Path, cat: Path) -> None:
    fifo = tmp_path / "m" / "1" / "model.py"
    fifo.parent.mkdir(parents=True)
    os.mkfifo(fifo)
    with subprocess.Popen([cat, fifo]) as process:
        assert stubs.models(os.getpid()) == set()
        process.kill()
