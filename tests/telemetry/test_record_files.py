from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge.errors import Code
from bridge.telemetry import record_files
from bridge.telemetry.record_files import Record, RecordFiles
from model_repo_sync.tfrecord import frame, read_records


@pytest.fixture
def outcomes() -> queue.SimpleQueue[Code]:
    return queue.SimpleQueue()


@pytest.fixture
def files() -> Iterator[RecordFiles]:
    with closing(RecordFiles(file_bytes=len(frame(b"one")) * 2)) as files:
        yield files


def read(directory: Path) -> list[list[bytes]]:
    """The records of each file, in the order of their numbers."""

    def number(path: Path) -> int:
        return int(path.stem.rpartition("-")[2])

    found = []
    for path in sorted(directory.glob("*.tfrecord"), key=number):
        with path.open("rb") as file:
            found.append(list(read_records(file)))
    return found


def write(files: RecordFiles, outcomes: queue.SimpleQueue[Code], prefix: Path, *parts: bytes) -> Code:
    assert files.append(Record(str(prefix), parts, outcomes.put))
    return outcomes.get(timeout=10)


def test_records_are_readable_at_once_and_files_follow_each_other(
    tmp_path: Path, files: RecordFiles, outcomes: queue.SimpleQueue[Code]
) -> None:
    prefix = tmp_path / "deep" / "er" / "half"
    for record in (b"one", b"two", b"tri"):
        assert write(files, outcomes, prefix, record[:1], record[1:]) is Code.OK
    assert read(prefix.parent) == [[b"one", b"two"], [b"tri"]]
    names = [path.name for path in prefix.parent.iterdir()]
    assert all(name.startswith("half-2") and f"-{os.getpid()}-" in name for name in names)


def test_each_prefix_has_its_own_file(tmp_path: Path, files: RecordFiles, outcomes: queue.SimpleQueue[Code]) -> None:
    write(files, outcomes, tmp_path / "a" / "x", b"1")
    write(files, outcomes, tmp_path / "b" / "x", b"2")
    write(files, outcomes, tmp_path / "a" / "x", b"3")
    assert (read(tmp_path / "a"), read(tmp_path / "b")) == ([[b"1", b"3"]], [[b"2"]])


def test_a_place_that_cannot_be_written_to_is_said_once_and_tried_again(
    tmp_path: Path, files: RecordFiles, outcomes: queue.SimpleQueue[Code], caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "logs"
    place.write_text("no directory")
    with caplog.at_level(logging.INFO):
        assert [write(files, outcomes, place / "x", b"1") for _ in range(3)] == [Code.UNAVAILABLE] * 3
        place.unlink()
        assert write(files, outcomes, place / "x", b"2") is Code.OK
    assert read(place) == [[b"2"]]
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_record_is_there_whole_or_not_at_all(
    tmp_path: Path, files: RecordFiles, outcomes: queue.SimpleQueue[Code], monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDisk(record_files.FileIO):
        room = len(frame(b"fits")) + 5

        def write(self, data: memoryview) -> int:  # type: ignore[override]
            if not self.room:
                raise OSError(28, "No space left on device")
            written = super().write(data[: self.room])
            self.room -= written
            return written

    monkeypatch.setattr(record_files, "FileIO", FullDisk)
    assert write(files, outcomes, tmp_path / "x", b"fits") is Code.OK
    assert write(files, outcomes, tmp_path / "x", b"does not") is Code.UNAVAILABLE
    assert read(tmp_path) == [[b"fits"]]


def test_records_that_pile_up_are_refused(
    tmp_path: Path, outcomes: queue.SimpleQueue[Code], monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    class SlowDisk(record_files.FileIO):
        def write(self, data: memoryview) -> int:  # type: ignore[override]
            goes_on.wait()
            return super().write(data)

    monkeypatch.setattr(record_files, "FileIO", SlowDisk)
    monkeypatch.setattr(record_files, "WAITING_BYTES", 10)
    with closing(RecordFiles(file_bytes=100)) as files:
        records = [Record(str(tmp_path / "x"), [b"12345678"], outcomes.put) for _ in range(3)]
        assert [files.append(record) for record in records] == [True, False, False]
        goes_on.set()
        assert outcomes.get(timeout=10) is Code.OK
        assert write(files, outcomes, tmp_path / "x", b"larger than what may wait") is Code.OK


def test_close_writes_what_waits(tmp_path: Path) -> None:
    files = RecordFiles(file_bytes=1 << 20)
    for number in range(100):
        files.append(Record(str(tmp_path / "x"), [b"%d" % number], lambda code: None))
    files.close()
    assert read(tmp_path) == [[b"%d" % number for number in range(100)]]


def test_idle_files_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcomes: queue.SimpleQueue[Code]
) -> None:
    monkeypatch.setattr(record_files, "IDLE_SECONDS", 0.0)
    with closing(RecordFiles(file_bytes=1 << 20)) as files:
        write(files, outcomes, tmp_path / "x", b"1")
        write(files, outcomes, tmp_path / "y", b"2")
        write(files, outcomes, tmp_path / "x", b"3")
    assert read(tmp_path) == [[b"1"], [b"2"], [b"3"]]
