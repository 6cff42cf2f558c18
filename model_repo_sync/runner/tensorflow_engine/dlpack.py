"""DLPack capsules by ctypes: the way for bfloat16, which numpy does not know, in and out of Triton's tensors."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import POINTER, c_int, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

CAPSULE_NAME = b"dltensor"
CPU = 1
BFLOAT = 4
BFLOAT16_BITS = 16

DELETER = ctypes.CFUNCTYPE(None, c_void_p)

_get_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h with DLDevice and DLDataType spread out."""

    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int),
        ("device_id", c_int),
        ("ndim", c_int),
        ("type_code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", c_void_p), ("deleter", DELETER))


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Memory of a capsule, which lives as long as `capsule`; `shape` counts elements."""

    capsule: Any
    address: int
    shape: tuple[int, ...]
    size: int


def borrow(capsule: Any) -> Borrowed:
    """Look into a capsule without consuming it."""
    tensor = DLManagedTensor.from_address(_get_pointer(capsule, CAPSULE_NAME)).tensor
    shape = tuple([tensor.shape[axis] for axis in range(tensor.ndim)])
    size = math.prod(shape) * tensor.bits * tensor.lanes // 8
    return Borrowed(capsule, (tensor.data or 0) + tensor.byte_offset, shape, size)


class Exporter:
    """Makes capsules of bfloat16 tensors and keeps each tensor's owner until its consumer is done."""

    def __init__(self) -> None:
        self._exported: dict[int, tuple[DLManagedTensor, Any, object]] = {}
        self._delete = DELETER(self._forget)

    def bfloat16(self, owner: object, address: int, shape: Sequence[int]) -> Any:
        """A capsule of the bfloat16 elements at `address`, whose memory `owner` holds."""
        dims = (c_int64 * len(shape))(*shape)
        tensor = DLTensor(address, CPU, 0, len(shape), BFLOAT, BFLOAT16_BITS, 1, dims, None, 0)
        managed = DLManagedTensor(tensor, None, self._delete)
        pointer = ctypes.addressof(managed)
        self._exported[pointer] = (managed, dims, owner)
        return _new_capsule(pointer, CAPSULE_NAME, None)

    def _forget(self, pointer: int) -> None:
        self._exported.pop(pointer, None)
