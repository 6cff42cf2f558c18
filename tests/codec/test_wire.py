from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec import wire

UINT64 = st.integers(0, 2**64 - 1)


@given(st.lists(UINT64))
def test_packed_varints(values: list[int]) -> None:
    data = b"".join(map(wire.encode_varint, values))
    assert wire.encode_varints(np.array(values, np.uint64)) == data
    assert wire.decode_varints(memoryview(data)).tolist() == values


def test_long_packed_fields() -> None:
    values = np.random.default_rng(7).integers(0, 2**64, 200_000, np.uint64) >> np.arange(200_000, dtype=np.uint64) % 64
    data = wire.encode_varints(values)
    assert data == b"".join(map(wire.encode_varint, values.tolist()))
    assert np.array_equal(wire.decode_varints(memoryview(data)), values)
    assert np.array_equal(wire.decode_varints(memoryview(data), "u1"), values.astype(np.uint8))


@given(UINT64)
def test_one_varint(value: int) -> None:
    data = wire.encode_varint(value)
    assert wire.read_varint(memoryview(data), 0) == (value, len(data))


@given(st.integers(-(2**63), 2**63 - 1))
def test_negative_values(value: int) -> None:
    data = wire.encode_varint(value)
    assert wire.signed(wire.read_varint(memoryview(data), 0)[0]) == value


@pytest.mark.parametrize("data", [b"\x80", b"\x01\x80", b"\xff" * 10 + b"\x01"])
def test_packed_varints_that_end_badly(data: bytes) -> None:
    with pytest.raises(wire.MalformedRequest):
        wire.decode_varints(memoryview(data))


def test_fields_of_every_wire_type() -> None:
    group = b"\x2b\x08\x01\x33\x34\x12\x01a\x19" + bytes(8) + b"\x1d" + bytes(4) + b"\x2c"
    data = b"\x08\x96\x01" + b"\x11" + b"8 bytes!" + b"\x1a\x02ab" + group + b"\x25four"
    assert list(wire.fields(memoryview(data))) == [
        (1 << 3 | wire.VARINT, 150, memoryview(b"")),
        (2 << 3 | wire.I64, 0, memoryview(b"8 bytes!")),
        (3 << 3 | wire.LEN, 0, memoryview(b"ab")),
        (4 << 3 | wire.I32, 0, memoryview(b"four")),
    ]
