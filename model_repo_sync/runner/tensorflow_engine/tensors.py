"""Tensors of TensorFlow's memory: made from what is fed, read as what Triton carries."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import PlatformError
from .feed import Array, Feed
from .library import DEALLOCATOR, Library

STRING_SIZE = 24
"""sizeof(TF_TString). All zero bytes are a valid empty string, as TF_StringInit leaves it."""

INLINE_STRING = 22
"""Bytes that a TF_TString holds in itself; a longer one owns memory that must be given back."""

ALIGNMENT = 64
"""What TensorFlow demands of the data of a tensor (EIGEN_MAX_ALIGN_BYTES)."""

NO_TENSOR = "TensorFlow could not make a tensor for an input"


SMALL = 1 << 16
"""Bytes of an output below which a copy is cheaper than keeping TensorFlow's memory for as long as Triton reads it."""

SMALL_INPUT = 1 << 12
"""Bytes of an input below which copying them twice is cheaper than asking numpy for their address."""

MOST_DIMS = 1024
"""How many shapes are kept in TensorFlow's form."""


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
    """Makes TensorFlow's tensors from what is fed. Whoever asks for one deletes it."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._dims: dict[tuple[int, ...], Any] = {}
        self._string_buffers: dict[int, tuple[Any, bool]] = {}
        self._release_strings = DEALLOCATOR(self._release)

    def tensor(self, feed: Feed) -> int:
        """A TF_Tensor with a copy of the elements."""
        _, dtype, shape, arrays = feed
        if dtype.triton == "BYTES":
            return self._strings(shape, [value for array in arrays for value in array.ravel().tolist()])
        if len(arrays) > 1:
            return self._joined(dtype.number, shape, arrays)
        array = arrays[0]
        size = array.nbytes
        pointer, memory = self._allocate(dtype.number, shape, size)
        ctypes.memmove(memory, array.tobytes() if size <= SMALL_INPUT else array.ctypes.data, size)
        return pointer

    def _joined(self, number: int, shape: tuple[int, ...], arrays: Sequence[Array]) -> int:
        pointer, memory = self._allocate(number, shape, sum([array.nbytes for array in arrays]))
        for array in arrays:
            ctypes.memmove(memory, array.ctypes.data, array.nbytes)
            memory += array.nbytes
        return pointer

    def _allocate(self, number: int, shape: tuple[int, ...], size: int) -> tuple[int, int]:
        """An uninitialised tensor of `size` bytes and the address of its first element, 0 where it has none."""
        library = self._library
        dims = self._dims.get(shape) or self._dims_of(shape)
        pointer = library.allocate_tensor(number, dims, len(shape), size)
        if pointer is None:
            raise PlatformError(NO_TENSOR)
        return pointer, library.tensor_data(pointer) or 0

    def _strings(self, shape: tuple[int, ...], values: Sequence[bytes]) -> int:
        """A tensor of DT_STRING. TensorFlow owns copies of all bytes, since a table or a variable may keep them."""
        size = STRING_SIZE * len(values)
        buffer = ctypes.create_string_buffer(size + ALIGNMENT)
        address = -(-ctypes.addressof(buffer) // ALIGNMENT) * ALIGNMENT
        copy = self._library.string_copy
        for position, value in zip(range(address, address + size, STRING_SIZE), values, strict=True):
            copy(position, value, len(value))
        self._string_buffers[address] = (buffer, any(len(value) > INLINE_STRING for value in values))
        pointer: int | None = self._library.new_tensor(
            dtypes.DT_STRING, self._dims_of(shape), len(shape), address, size, self._release_strings, None
        )
        if pointer is None:
            raise PlatformError(NO_TENSOR)
        return pointer

    def _release(self, address: int, size: int, _: int | None) -> None:
        """TensorFlow's last reference to a string tensor is gone, on whichever thread that was."""
        _buffer, owns_memory = self._string_buffers.pop(address)
        if owns_memory:
            for position in range(address, address + size, STRING_SIZE):
                self._library.string_dealloc(position)

    def _dims_of(self, shape: tuple[int, ...]) -> Any:
        """`shape` as TensorFlow takes it; making one costs as much as making the tensor."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        if len(self._dims) < MOST_DIMS:
            self._dims[shape] = dims
        return dims


class TensorReader:
    """Reads TensorFlow's tensors as arrays of the dtypes that Triton carries."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def array(self, dtype: DType, pointer: int) -> Array:
        """The tensor in its wire form: of its true shape, with one more dimension where an element takes several
        wire elements. The tensor belongs to the array from now on, or is deleted."""
        library = self._library
        if dtype.triton == "BYTES":
            return self._strings(TensorHandle(library, pointer))
        shape = self._shape(pointer)
        size = library.tensor_byte_size(pointer)
        if size > SMALL:
            return self._view(dtype, _wire_shape(dtype, shape), TensorHandle(library, pointer))
        # The empty tensor's address may be null, of which nothing can be read.
        content = ctypes.string_at(library.tensor_data(pointer), size) if size else b""
        library.delete_tensor(pointer)
        return _array(dtype, shape, content)

    def fetched(self, dtype: DType, fetched: int | tuple[tuple[int, ...], bytes]) -> Array:
        """The same of what the compiled part of the runner fetched."""
        if isinstance(fetched, int):
            return self.array(dtype, fetched)
        return _array(dtype, *fetched)

    def _shape(self, pointer: int) -> tuple[int, ...]:
        dim = self._library.dim
        rank = self._library.num_dims(pointer)
        return (dim(pointer, 0),) if rank == 1 else tuple([dim(pointer, axis) for axis in range(rank)])

    def _view(self, dtype: DType, shape: tuple[int, ...], handle: TensorHandle) -> Array:
        handle.__array_interface__ = {
            "version": 3,
            "typestr": np.dtype(dtype.numpy).str,
            "shape": shape,
            "data": (self._library.tensor_data(handle.pointer), False),
        }
        return np.asarray(handle)

    def _strings(self, handle: TensorHandle) -> Array:
        shape, first = self._shape(handle.pointer), self._library.tensor_data(handle.pointer) or 0
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


def _wire_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if dtype.multiplicity == 1 else (*shape, dtype.multiplicity)


def _array(dtype: DType, shape: tuple[int, ...], content: bytes) -> Array:
    array = np.frombuffer(content, dtype.numpy)
    return array if len(shape) == 1 and dtype.multiplicity == 1 else array.reshape(_wire_shape(dtype, shape))
