"""What both legs do with the outputs of an answer: bring them in order and refuse broken ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from bridge.errors import Code
from bridge.triton.calls import CallError, Fault, WireTensor

ITEM_BYTES = {
    "BOOL": 1,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "UINT64": 8,
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FP16": 2,
    "BF16": 2,
    "FP32": 4,
    "FP64": 8,
}
"""Bytes of an element; BYTES has no fixed width."""


def byte_size(data: bytes | bytearray | memoryview) -> int:
    """Bytes of `data`; `len` of a memoryview counts its elements."""
    return data.nbytes if isinstance(data, memoryview) else len(data)


def ordered(found: Mapping[str, WireTensor], names: Sequence[str]) -> list[WireTensor]:
    """The outputs asked for, in the order asked for.

    Triton passes on what a backend gives it: it notices neither a missing output nor one whose bytes do not fit its
    shape (its Python backend answers so under numpy 2). Both are CallError INTERNAL here, never a wrong answer.
    """
    return [_whole(found.get(name), name) for name in names]


def _whole(tensor: WireTensor | None, name: str) -> WireTensor:
    if tensor is None:
        raise CallError(f"Triton left out the output {name} that was asked for", Code.INTERNAL, Fault.RUNNER)
    width = ITEM_BYTES.get(tensor.datatype)
    if width is not None and prod(tensor.shape) * width != byte_size(tensor.data):
        sentence = (
            f"Triton answered output {name} of datatype {tensor.datatype} and shape {list(tensor.shape)} "
            f"with {byte_size(tensor.data)} bytes"
        )
        raise CallError(sentence, Code.INTERNAL, Fault.RUNNER)
    return tensor
