from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from model_repo_sync.runner.tensorflow_engine import dlpack
from model_repo_sync.runner.tensorflow_engine.dlpack import Exporter, borrow


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "uint16", "int8"])
def test_borrow_sees_address_shape_and_size(shape: tuple[int, ...], dtype: str) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)
    borrowed = borrow(array.__dlpack__())
    assert (borrowed.shape, borrowed.size) == (shape, array.nbytes)
    if array.size:
        assert ctypes.string_at(borrowed.address, borrowed.size) == array.tobytes()


class Owner:
    def __init__(self, data: bytes) -> None:
        self.buffer = ctypes.create_string_buffer(data, len(data))


def consume(capsule: Any) -> None:
    """What a consumer of a capsule does in the end: call its deleter."""
    pointer = dlpack._get_pointer(capsule, dlpack.CAPSULE_NAME)
    dlpack.DLManagedTensor.from_address(pointer).deleter(pointer)


def test_an_exported_tensor_keeps_its_owner_until_it_is_consumed() -> None:
    exporter, owner = Exporter(), Owner(b"abcdef")
    alive = weakref.ref(owner)
    capsule = exporter.bfloat16(owner, ctypes.addressof(owner.buffer), (3, 1))
    del owner
    gc.collect()
    assert alive() is not None
    borrowed = borrow(capsule)
    assert (borrowed.shape, ctypes.string_at(borrowed.address, borrowed.size)) == ((3, 1), b"abcdef")
    consume(capsule)
    gc.collect()
    assert alive() is None
