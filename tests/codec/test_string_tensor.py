from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from bridge.codec.string_tensor import frame, unframe


@given(st.lists(st.binary(max_size=300)))
def test_is_the_framing_of_tritons_client(items: list[bytes]) -> None:
    data = frame(items)
    assert unframe(data) == items
    assert unframe(memoryview(data)) == items
    assert deserialize_bytes_tensor(data).tolist() == items
    assert frame(map(memoryview, items)) == data
    array = np.array([*items, None], object)[:-1]
    assert not items or serialize_byte_tensor(array).item() == data


@pytest.mark.parametrize("data", [b"\x01", b"\x01\x00\x00\x00", b"\x02\x00\x00\x00a", b"\x00\x00\x00\x00\x01\x00\x00"])
def test_truncated(data: bytes) -> None:
    with pytest.raises(ValueError, match="string"):
        unframe(data)
