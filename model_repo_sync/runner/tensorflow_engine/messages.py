"""Triton's requests and responses: what the stub hands in, and what it sends."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb

from . import dtypes, shapes
from .description import Description
from .dlpack import Exporter, borrow
from .dtypes import DTYPES, DType
from .errors import INTERNAL, INVALID_ARGUMENT, StatusError
from .library import Library
from .merging import Value
from .tensors import Array, TensorHandle, TensorMaker, TensorReader

NOOP_INPUT = "bridge.noop"
"""Triton wants at least one input; a signature without any sends this one."""

DESCRIPTION_OUTPUT = "bridge.runner"
"""Answers what runs here, without TensorFlow's doing anything."""

TRITON_CODES: Mapping[int, str] = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARG",
    4: "UNAVAILABLE",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    8: "UNAVAILABLE",
    9: "INVALID_ARG",
    10: "UNAVAILABLE",
    11: "INVALID_ARG",
    12: "UNSUPPORTED",
    14: "UNAVAILABLE",
}
"""TensorFlow's codes as the nearest of Triton's, INTERNAL where there is none. TensorFlow's own is in the text."""

QUEUE_FULL = "Exceeds maximum queue size"
QUEUE_TIMEOUT = "Request timeout expired"
"""Triton's sentences for its own queue, so that a client meets one wording whichever queue refused."""

WAITED_SECONDS = 0.001
"""A request that waited longer may have been cancelled meanwhile; asking costs 0.05 ms."""


def is_description(request: Any) -> bool:
    """Whether nothing but the description of the runner is asked."""
    return list(request.requested_output_names()) == [DESCRIPTION_OUTPUT]


def fetches(request: Any) -> list[str]:
    """The graph tensors that a request asks for."""
    return [name for name in request.requested_output_names() if name != DESCRIPTION_OUTPUT]


def error(failure: BaseException) -> Any:
    """The response to a request that failed."""
    if isinstance(failure, StatusError):
        code = TRITON_CODES.get(failure.code, "INTERNAL")
        return _error(str(failure), code)
    return _error(f"The runner failed at this request: {type(failure).__name__}: {failure}", "INTERNAL")


def queue_full() -> Any:
    return _error(QUEUE_FULL, "UNAVAILABLE")


def lapsed(request: Any, waited: float) -> Any:
    """The response to a request that nobody waits for any more after `waited` seconds in the queue, else None."""
    if waited < WAITED_SECONDS:
        return None
    timeout_microseconds = request.timeout()
    if timeout_microseconds and waited * 1e6 > timeout_microseconds:
        return _error(QUEUE_TIMEOUT, "UNAVAILABLE")
    if request.is_cancelled():
        return _error("The client cancelled the request while it waited", "CANCELLED")
    return None


def send(sender: Any, response: Any) -> None:
    """Answer a request through its sender; blocks until Triton has taken the bytes."""
    sender.send(response, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _error(text: str, code: str) -> Any:
    # Looked up late: the stub adds these names to its module only after the model was imported.
    return pb.InferenceResponse(error=pb.TritonError(text, getattr(pb.TritonError, code)))


class Inputs:
    """Turns a request's inputs into TensorFlow's tensors; `declared` are their dtypes by name."""

    def __init__(self, library: Library, declared: Mapping[str, int]) -> None:
        self._maker = TensorMaker(library)
        self._dtypes = {name: DTYPES[number] for name, number in declared.items()}

    def read(self, request: Any) -> tuple[list[str], list[TensorHandle]]:
        """Names and tensors in the request's order. Raises StatusError where shape and data disagree."""
        declared = shapes.declared(request.parameters())
        names: list[str] = []
        tensors: list[TensorHandle] = []
        for tensor in request.inputs():
            name = tensor.name()
            if name != NOOP_INPUT:
                names.append(name)
                tensors.append(self._read(name, tensor, declared.get(name)))
        return names, tensors

    def values(self, request: Any) -> dict[str, Value]:
        """The tensors by name, before TensorFlow has them. Raises StatusError where shape and data disagree."""
        declared = shapes.declared(request.parameters())
        tensors = {tensor.name(): tensor for tensor in request.inputs()}
        return {
            name: self._value(name, tensor, declared.get(name))
            for name, tensor in tensors.items()
            if name != NOOP_INPUT
        }

    def joined(self, values: Sequence[Value]) -> TensorHandle:
        """One tensor with the rows of all `values`."""
        return self._maker.joined(values[0].dtype, [value.array for value in values])

    def _value(self, name: str, tensor: Any, shape: Any) -> Value:
        dtype = self._dtypes[name]
        array = _bfloat16_bits(tensor) if dtype.triton == "BF16" else tensor.as_numpy()
        true_shape = _shape(name, dtype, shape, array.shape)
        wire_shape = true_shape if dtype.multiplicity == 1 else (*true_shape, dtype.multiplicity)
        return Value(dtype, array.reshape(wire_shape))

    def _read(self, name: str, tensor: Any, shape: Any) -> TensorHandle:
        dtype = self._dtypes[name]
        if dtype.triton == "BF16":
            memory = borrow(tensor.to_dlpack())
            return self._maker.numbers(dtype, _shape(name, dtype, shape, memory.shape), memory.address, memory.size)
        array = tensor.as_numpy()
        true_shape = _shape(name, dtype, shape, array.shape)
        if dtype.is_string:
            return self._maker.strings(true_shape, array.ravel().tolist())
        return self._maker.numbers(dtype, true_shape, array.ctypes.data, array.nbytes)


def _bfloat16_bits(tensor: Any) -> Array:
    memory = borrow(tensor.to_dlpack())
    return np.frombuffer(ctypes.string_at(memory.address, memory.size), np.uint16)


def _shape(name: str, dtype: DType, shape: Any, wire_shape: Sequence[int]) -> tuple[int, ...]:
    """The true shape: the one declared, else the flat wire shape."""
    wire_elements = math.prod(wire_shape)
    elements, rest = divmod(wire_elements, dtype.multiplicity)
    if rest:
        raise StatusError(
            INVALID_ARGUMENT,
            f"Input {name} of type {dtype.name} takes {dtype.multiplicity} wire elements per element "
            f"but the request holds {wire_elements}",
        )
    if shape is not None:
        return shapes.checked(name, shape, elements)
    return tuple(wire_shape) if dtype.multiplicity == 1 else (elements,)


class Outputs:
    """Turns TensorFlow's tensors into a request's outputs; `declared` are their dtypes by name."""

    def __init__(self, library: Library, declared: Mapping[str, int], description: Description) -> None:
        self._reader = TensorReader(library)
        self._exporter = Exporter()
        self._declared = declared
        self._description = description

    def response(self, names: Sequence[str], arrays: Mapping[str, Array]) -> Any:
        """The response with the outputs `names`, whose memory `arrays` keep alive."""
        return pb.InferenceResponse([self._output(name, arrays) for name in names])

    def _output(self, name: str, arrays: Mapping[str, Array]) -> Any:
        if name == DESCRIPTION_OUTPUT:
            return pb.Tensor(name, np.array([self._description.json().encode()], object))
        array = arrays[name]
        if DTYPES[self._declared[name]].triton == "BF16":
            return pb.Tensor.from_dlpack(name, self._exporter.bfloat16(array, array.ctypes.data, array.shape))
        return pb.Tensor(name, array)

    def array(self, name: str, handle: TensorHandle) -> Array:
        """Output `name` in its wire form. Raises StatusError where it is not of the configured dtype."""
        dtype = self._reader.dtype(name, handle)
        if dtype.number != self._declared[name]:
            # Triton would label the bytes with the configured type and say nothing.
            configured = dtypes.name(self._declared[name])
            raise StatusError(INTERNAL, f"Output {name} is configured as {configured} but is {dtype.name}")
        return self._reader.array(dtype, handle)
