from __future__ import annotations

from pathlib import Path

import pytest

from model_repo_sync.tfrecord import TFRecordError, frame, read_records
from tests.support import savedmodels

RECORDS = [b"hello", b"", b"x" * 1000]
GOOD = b"".join(map(frame, RECORDS))
SECOND, THIRD = len(frame(RECORDS[0])), len(frame(RECORDS[0]) + frame(RECORDS[1]))


def damaged(position: int) -> bytes:
    data = bytearray(GOOD)
    data[position] ^= 1
    return bytes(data)


def outcome(path: Path) -> list[bytes] | str:
    with path.open("rb") as file:
        try:
            return list(read_records(file))
        except TFRecordError as error:
            return str(error)


def tensorflow_outcome(path: Path) -> list[bytes] | str:
    try:
        return savedmodels.records(path)
    except savedmodels.TensorFlowError as error:
        return error.text


def test_frame() -> None:
    assert frame(b"hello").hex() == "0500000000000000eab2043e" + b"hello".hex() + "bb1f1c19"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(GOOD, RECORDS, id="whole"),
        pytest.param(b"", [], id="empty"),
        pytest.param(b"abc", [], id="shorter than a header"),
        pytest.param(b"no record file", "corrupted record at 0 (Is this even a TFRecord file?)", id="text"),
        pytest.param(damaged(0), "corrupted record at 0 (Is this even a TFRecord file?)", id="first length"),
        pytest.param(damaged(13), "corrupted record at 12", id="first record"),
        pytest.param(damaged(SECOND), f"corrupted record at {SECOND}", id="second length"),
        pytest.param(damaged(THIRD + 12), f"corrupted record at {THIRD + 12}", id="third record"),
        pytest.param(
            GOOD[: SECOND + 12], f"truncated record at {SECOND}' failed with Read less bytes than requested", id="cut"
        ),
        pytest.param(
            GOOD[:-5], f"truncated record at {THIRD}' failed with Read less bytes than requested", id="cut inside"
        ),
        pytest.param(GOOD[: SECOND + 5], RECORDS[:1], id="cut header"),
    ],
)
def test_read_as_tensorflow_reads(tmp_path: Path, data: bytes, expected: list[bytes] | str) -> None:
    path = tmp_path / "records"
    path.write_bytes(data)
    assert outcome(path) == expected
    assert tensorflow_outcome(path) == expected


def test_a_length_past_the_end_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "records"
    head = frame((2**62).to_bytes(8, "little"))
    path.write_bytes(head[12:24] + b"abc")
    assert outcome(path) == "truncated record at 0' failed with Read less bytes than requested"
