"""Rotation and memory of a child's output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.triton.child_log import LONGEST_LINE, ChildLog


def follow(log: ChildLog, data: bytes) -> None:
    """Let `log` read `data` from a pipe to its end."""
    reading, writing = os.pipe()
    log.follow(os.fdopen(reading, "rb"))
    with os.fdopen(writing, "wb") as stream:
        stream.write(data)
    log.settle(5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "triton.log"


def test_lines_are_kept_as_they_are(path: Path) -> None:
    log = ChildLog(path, max_bytes=10_000, backups=1)
    follow(log, "one\n%s %d {}\n\nthree ü\nno line feed".encode() + b"\xff\n")
    log.close()
    assert path.read_text() == "one\n%s %d {}\n\nthree ü\nno line feed\\xff\n"
    assert log.tail(2) == ["three ü", "no line feed\\xff"]


def test_rotation_bounds_the_disk_and_keeps_the_newest(path: Path) -> None:
    log = ChildLog(path, max_bytes=1000, backups=2)
    lines = [f"line {number:04d}" for number in range(1000)]
    follow(log, "\n".join(lines).encode())
    log.close()
    files = [path.with_name("triton.log.2"), path.with_name("triton.log.1"), path]
    assert sorted(path.parent.iterdir()) == sorted(files)
    assert all(file.stat().st_size <= 1000 for file in files)
    kept = [line for file in files for line in file.read_text().splitlines()]
    assert len(kept) > 200
    assert kept == lines[-len(kept) :]


def test_a_second_run_appends(path: Path) -> None:
    for text in (b"first run\n", b"second run\n"):
        log = ChildLog(path, max_bytes=1000, backups=1)
        follow(log, text)
        log.close()
    assert path.read_text() == "first run\nsecond run\n"


def test_the_tail_is_of_the_current_child(path: Path) -> None:
    log = ChildLog(path, max_bytes=1000, backups=1)
    follow(log, b"old\n")
    follow(log, b"new\n")
    assert log.tail() == ["new"]
    log.close()


def test_an_endless_line_is_split(path: Path) -> None:
    log = ChildLog(path, max_bytes=10 * LONGEST_LINE, backups=1)
    follow(log, b"x" * (LONGEST_LINE + 10))
    log.close()
    assert [len(line) for line in path.read_text().splitlines()] == [LONGEST_LINE, 10]


def test_a_log_that_cannot_be_written_never_stops_the_reader(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "absent" / "triton.log", max_bytes=1000, backups=1)
    follow(log, b"one\ntwo\n" * 20_000)
    assert log.tail(2) == ["one", "two"]
    log.close()
