"""Tensors of TensorFlow's memory: made from Triton's inputs, read as Triton's outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import dtypes
from .dtypes import DType
from .errors import UNIMPLEMENTED, PlatformError, StatusError
from .library import DEALLOCATOR, Library

Array = npt.NDArray[Any]

STRING_SIZE = 24
"""sizeof(TF_TString). All zero bytes are a valid empty string, as TF_StringInit leaves it."""

INLINE_STRING = 22
"""Bytes that a TF_TString holds in itself; a longer one owns memory that must be given back."""

ALIGNMENT = 64
"""What TensorFlow demands of the data of a tensor (EIGEN_MAX_ALIGN_BYTES)."""


class TensorHandle:
    """A TF_Tensor, freed with this object.

    `__array_interface__` lets numpy use the tensor's memory without a copy; such an array keeps this object, and so the
    memory, alive. That matters: Triton reads an output's bytes only when it sends the response.
    """

    __slots__ = ("__array_interface__", "_delete", "pointer")

    __array_interface__: dict[str, Any]

    def __init__(self, library: Library, pointer: int) -> None:
        self._delete = library.delete_tensor
        self.pointer = pointer

    def __del__(self) -> None:
        self._delete(self.pointer)


class TensorMaker:
    """Makes TensorFlow's tensors from the data of requests."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._string_buffers: dict[int, tuple[Any, bool]] = {}
        self._release_strings = DEALLOCATOR(self._release)

    def numbers(self, dtype: DType, shape: Sequence[int], address: int, size: int) -> TensorHandle:
        """A tensor with a copy of the `size` bytes at `address`."""
        handle = self._handle(self._library.allocate_tensor(dtype.number, _dims(shape), len(shape), size))
        if size:
            ctypes.memmove(self._library.tensor_data(handle.pointer), address, size)
        return handle

    def joined(self, dtype: DType, arrays: Sequence[Array]) -> TensorHandle:
        """A tensor with the rows of all `arrays`, which are in wire form and equal in their other dimensions."""
        wire_shape = (sum([len(array) for array in arrays]), *arrays[0].shape[1:])
        shape = wire_shape if dtype.multiplicity == 1 else wire_shape[:-1]
        if dtype.is_string:
            return self.strings(shape, [value for array in arrays for value in array.ravel().tolist()])
        if len(arrays) == 1:
            return self.numbers(dtype, shape, arrays[0].ctypes.data, arrays[0].nbytes)
        size = sum([array.nbytes for array in arrays])
        handle = self._handle(self._library.allocate_tensor(dtype.number, _dims(shape), len(shape), size))
        if size:
            memory = memoryview((ctypes.c_char * size).from_address(self._library.tensor_data(handle.pointer)))
            np.concatenate(arrays, out=np.frombuffer(memory, arrays[0].dtype).reshape(wire_shape))
        return handle

    def strings(self, shape: Sequence[int], values: Sequence[bytes]) -> TensorHandle:
        """A tensor of DT_STRING. TensorFlow owns copies of all bytes, since a table or a variable may keep them."""
        size = STRING_SIZE * len(values)
        buffer = ctypes.create_string_buffer(size + ALIGNMENT)
        address = -(-ctypes.addressof(buffer) // ALIGNMENT) * ALIGNMENT
        copy = self._library.string_copy
        for position, value in zip(range(address, address + size, STRING_SIZE), values, strict=True):
            copy(position, value, len(value))
        self._string_buffers[address] = (buffer, any(len(value) > INLINE_STRING for value in values))
        return self._handle(
            self._library.new_tensor(
                dtypes.DT_STRING, _dims(shape), len(shape), address, size, self._release_strings, None
            )
        )

    def _release(self, address: int, size: int, _: int | None) -> None:
        """TensorFlow's last reference to a string tensor is gone, on whichever thread that was."""
        _buffer, owns_memory = self._string_buffers.pop(address)
        if owns_memory:
            for position in range(address, address + size, STRING_SIZE):
                self._library.string_dealloc(position)

    def _handle(self, pointer: int | None) -> TensorHandle:
        if pointer is None:
            raise PlatformError("TensorFlow could not make a tensor for an input")
        return TensorHandle(self._library, pointer)


class TensorReader:
    """Reads TensorFlow's tensors as arrays of the dtypes that Triton carries."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def dtype(self, name: str, handle: TensorHandle) -> DType:
        """The dtype of output `name`. Raises StatusError where no client can be given it."""
        number = dtypes.base(self._library.tensor_type(handle.pointer))
        dtype = dtypes.DTYPES.get(number)
        if dtype is None:
            raise StatusError(UNIMPLEMENTED, f"Output {name} is of type {dtypes.name(number)}, which cannot be served")
        return dtype

    def shape(self, handle: TensorHandle) -> tuple[int, ...]:
        dim, pointer = self._library.dim, handle.pointer
        return tuple([dim(pointer, axis) for axis in range(self._library.num_dims(pointer))])

    def data(self, handle: TensorHandle) -> int:
        """The address of the first element; 0 where there is none."""
        return self._library.tensor_data(handle.pointer) or 0

    def array(self, dtype: DType, handle: TensorHandle) -> Array:
        """The tensor in its wire form: of its true shape, with one more dimension where an element takes several
        wire elements. Numbers share the tensor's memory and keep it alive."""
        if dtype.is_string:
            return self._strings(handle)
        shape = self.shape(handle)
        if dtype.multiplicity > 1:
            shape = (*shape, dtype.multiplicity)
        element = np.dtype(dtype.numpy)
        if not self._library.tensor_byte_size(handle.pointer):
            return np.empty(shape, element)
        handle.__array_interface__ = {
            "version": 3,
            "typestr": element.str,
            "shape": shape,
            "data": (self.data(handle), False),
        }
        return np.asarray(handle)

    def _strings(self, handle: TensorHandle) -> Array:
        shape, first = self.shape(handle), self.data(handle)
        pointer_of, size_of, bytes_at = (
            self._library.string_get_data_pointer,
            self._library.string_get_size,
            ctypes.string_at,
        )
        result = np.empty(shape, object)
        flat = result.reshape(-1)
        for index in range(flat.size):
            position = first + index * STRING_SIZE
            flat[index] = bytes_at(pointer_of(position), size_of(position))
        return result


def _dims(shape: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(shape))(*shape)
