from __future__ import annotations

import pytest

from model_repo_sync.checkpoint_index import CheckpointIndexError, Shard, parse_shards
from tests.model_repo_sync.builders import checkpoint_index, table

WRITTEN_BY_TENSORFLOW = bytes.fromhex(
    "00000608011a020801001c105f434845434b504f494e5441424c455f4f424a4543545f47524150480807120020c4b802289a04356d5c67d8"
    "001c0b612f2e415454524942555445532f5641524941424c455f56414c5545080112002804350638271f001c18622f2e4154545249425554"
    "45532f5641524941424c455f56414c554508011209120308e8071202080a200428c0b802356d154d0a00000000010000000071d13a040000"
    "00000100000000c0f2a1b00001036300a1010000000001000000004a60eca3a60108b3010f00000000000000000000000000000000000000"
    "00000000000000000000000000000057fb808b247547db"
)
"""variables.index of a module with a scalar and a [1000, 10] float variable, saved by TensorFlow 2.21."""


def test_the_index_of_a_real_checkpoint() -> None:
    assert parse_shards(WRITTEN_BY_TENSORFLOW) == (Shard("data-00000-of-00001", 40542),)


def test_shards_have_the_size_of_their_last_tensor() -> None:
    assert parse_shards(checkpoint_index([300, 0, 5])) == (
        Shard("data-00000-of-00003", 300),
        Shard("data-00001-of-00003", 0),
        Shard("data-00002-of-00003", 5),
    )


@pytest.mark.parametrize("size", [0, 1, 47, 48, 100, 246])
def test_a_truncated_index_is_recognised(size: int) -> None:
    with pytest.raises(CheckpointIndexError, match="truncated"):
        parse_shards(WRITTEN_BY_TENSORFLOW[:size])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\0" * 200, "truncated or not a checkpoint index"),
        (table({b"": b"\x08\x01"}, compression=1), "compressed"),
        (table({b"a": b"\x28\x05"}), "no valid number of shards"),
        (table({b"": b"\x08\x01", b"a": b"\x18\x07"}), "no valid number of shards"),
        (table({b"": b"\x08"}), "damaged"),
        (table({b"": b"\x0b"}), "damaged"),
        (table({b"": b"\x08" + b"\xff" * 11}), "damaged"),
    ],
)
def test_a_damaged_index_is_recognised(data: bytes, sentence: str) -> None:
    with pytest.raises(CheckpointIndexError, match=sentence):
        parse_shards(data)


@pytest.mark.parametrize("position", range(0, 190, 7))
def test_flipped_bytes_never_escape_as_another_error(position: int) -> None:
    data = bytearray(WRITTEN_BY_TENSORFLOW)
    data[position] ^= 0xFF
    try:
        shards = parse_shards(bytes(data))
    except CheckpointIndexError:
        return
    assert all(isinstance(shard, Shard) for shard in shards)
