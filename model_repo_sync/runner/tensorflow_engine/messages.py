"""Triton's requests and responses: what the stub hands in, and what it sends."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb

from . import shapes
from .description import Description
from .dlpack import Exporter, borrow
from .dtypes import DTYPES, DType
from .errors import INVALID_ARGUMENT, StatusError
from .feed import Array, Feed
from .merging import Value

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

NO_PARAMETERS = len("{}")
"""Characters of what a request without parameters gives."""

WAITED_SECONDS = 0.001
"""A request that waited longer may have been cancelled meanwhile; asking costs 0.05 ms."""


def is_description(request: Any) -> bool:
    """Whether nothing but the description of the runner is asked."""
    return requested(request) == [DESCRIPTION_OUTPUT]


def requested(request: Any) -> list[str]:
    """The outputs that a request asks for."""
    return list(request.requested_output_names())


def fetches(names: Sequence[str]) -> list[str]:
    """The graph tensors among the outputs `names`."""
    return [name for name in names if name != DESCRIPTION_OUTPUT]


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
    """Reads what a request feeds; `declared` are the dtypes of its inputs by name."""

    def __init__(self, declared: Mapping[str, int]) -> None:
        self._dtypes = {name: DTYPES[number] for name, number in declared.items()}

    def read(self, request: Any) -> list[Feed]:
        """What is fed, in the request's order. Raises StatusError where shape and data disagree."""
        parameters = request.parameters()
        true_shapes = shapes.declared(parameters) if len(parameters) > NO_PARAMETERS else {}
        feeds = []
        for tensor in request.inputs():
            name = tensor.name()
            if name == NOOP_INPUT:
                continue
            dtype = self._dtypes[name]
            array = _bfloat16_bits(tensor) if dtype.triton == "BF16" else tensor.as_numpy()
            # What most requests feed: a tensor of rank 1 whose elements are those of the wire.
            flat = name not in true_shapes and dtype.multiplicity == 1
            shape = array.shape if flat else _shape(name, dtype, true_shapes.get(name), array)
            feeds.append(Feed(name, dtype, shape, (array,)))
        return feeds

    def values(self, request: Any) -> dict[str, Value]:
        """What is fed, by name and in its true shape."""
        return {name: _value(dtype, shape, arrays[0]) for name, dtype, shape, arrays in self.read(request)}


def _value(dtype: DType, shape: tuple[int, ...], array: Array) -> Value:
    return Value(dtype, array.reshape(shape if dtype.multiplicity == 1 else (*shape, dtype.multiplicity)))


def _bfloat16_bits(tensor: Any) -> Array:
    memory = borrow(tensor.to_dlpack())
    return np.frombuffer(ctypes.string_at(memory.address, memory.size), np.uint16)


def _shape(name: str, dtype: DType, shape: Any, array: Array) -> tuple[int, ...]:
    """The true shape: the one declared, else the flat wire shape."""
    elements, rest = divmod(array.size, dtype.multiplicity)
    if rest:
        raise StatusError(
            INVALID_ARGUMENT,
            f"Input {name} of type {dtype.name} takes {dtype.multiplicity} wire elements per element "
            f"but the request holds {array.size}",
        )
    return (elements,) if shape is None else shapes.checked(name, shape, elements)


class Outputs:
    """Turns arrays in wire form into a request's outputs; `declared` are their dtypes by name."""

    def __init__(self, declared: Mapping[str, int], description: Description) -> None:
        self._exporter = Exporter()
        self._bfloat16 = frozenset(name for name, number in declared.items() if DTYPES[number].triton == "BF16")
        self._description = description

    def response(self, names: Sequence[str], arrays: Mapping[str, Array]) -> Any:
        """The response with the outputs `names`, whose memory `arrays` keep alive."""
        return pb.InferenceResponse(
            [
                self._description_tensor() if name == DESCRIPTION_OUTPUT else self._tensor(name, arrays[name])
                for name in names
            ]
        )

    def fetched(self, names: Sequence[str], arrays: Sequence[Array]) -> Any:
        """The response with the graph tensors `names`, as nearly every request asks for it."""
        return pb.InferenceResponse(list(map(self._tensor, names, arrays)))

    def _description_tensor(self) -> Any:
        return pb.Tensor(DESCRIPTION_OUTPUT, np.array([self._description.json().encode()], object))

    def _tensor(self, name: str, array: Array) -> Any:
        if name in self._bfloat16:
            return pb.Tensor.from_dlpack(name, self._exporter.bfloat16(array, array.ctypes.data, array.shape))
        return pb.Tensor(name, array)
