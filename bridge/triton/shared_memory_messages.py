"""Inference requests over HTTP whose tensors lie in a region of shared memory, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from bridge.triton.calls import ModelCall, WireTensor
from bridge.triton.http_messages import Buffer, ProtocolError, Response, header_line, microseconds
from bridge.triton.outputs import ITEM_BYTES, byte_size, ordered

ALIGNMENT = 64
"""Bytes; tensors begin at multiples of it."""


class Slot(NamedTuple):
    """Where a tensor lies in its region, in bytes."""

    offset: int
    size: int


class Layout(NamedTuple):
    """Where the tensors of one call lie; those that are left out travel in the message. `size` is the whole."""

    inputs: Mapping[str, Slot]
    outputs: Mapping[str, Slot]
    size: int


def layout(call: ModelCall, outputs: Mapping[str, int]) -> Layout:
    """Room for every input that is not empty, then for `outputs` (bytes by name)."""
    end = 0
    slots: list[dict[str, Slot]] = [{}, {}]
    fed = {tensor.name: byte_size(tensor.data) for tensor in call.inputs}
    for found, sizes in zip(slots, (fed, outputs), strict=True):
        for name, size in sizes.items():
            if size:
                found[name] = Slot(end, size)
                end += -(-size // ALIGNMENT) * ALIGNMENT
    return Layout(slots[0], slots[1], end)


class Messages:
    """Requests to one address. Raises ValueError for a header with a line break."""

    def __init__(self, host: str, headers: Mapping[str, str]) -> None:
        lines = [f"Host: {host}", *(header_line(name, value) for name, value in headers.items())]
        self._fixed = "\r\n".join(lines)

    def request(self, call: ModelCall, region: str, place: Layout, timeout: float) -> bytes:
        """All of a request whose tensors are in `region` already. Empty ones have no bytes to send."""
        document: dict[str, Any] = {
            "parameters": {"timeout": microseconds(timeout), **call.parameters},
            "inputs": [_input(tensor, region, place.inputs.get(tensor.name)) for tensor in call.inputs],
            "outputs": [_output(name, region, place.outputs.get(name)) for name in call.outputs],
        }
        if call.request_id:
            document["id"] = call.request_id
        body = orjson.dumps(document)
        head = (
            f"POST /v2/models/{quote(call.model, safe='')}/infer HTTP/1.1\r\n{self._fixed}\r\n"
            f"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {len(body)}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body


def answer(response: Response, call: ModelCall, region: memoryview, place: Layout) -> list[WireTensor]:
    """The tensors of a 200 answer as views on `region` and on the message.

    Triton says how many bytes a tensor has where it is part of the message, else they follow from its shape. Raises
    ProtocolError, KeyError and JSONDecodeError.
    """
    body = memoryview(response.body)
    offset = len(body) if response.json_size is None else response.json_size
    found: dict[str, WireTensor] = {}
    for item in orjson.loads(body[:offset])["outputs"]:
        name, datatype, shape = item["name"], item["datatype"], tuple(item["shape"])
        size = item.get("parameters", {}).get("binary_data_size")
        if size is None:
            data = _shared(region, place.outputs[name], prod(shape) * ITEM_BYTES[datatype])
        else:
            data = body[offset : offset + size]
            offset += size
        found[name] = WireTensor(name, datatype, shape, data)
    if offset != len(body):
        raise ProtocolError(f"the answer names {offset} bytes and has {len(body)}")
    return ordered(found, call.outputs)


def _shared(region: memoryview, slot: Slot, size: int) -> Buffer:
    if size > slot.size:
        raise ProtocolError(f"the answer names {size} bytes where {slot.size} have room")
    return region[slot.offset : slot.offset + size]


def _input(tensor: WireTensor, region: str, slot: Slot | None) -> dict[str, Any]:
    parameters = {"binary_data_size": 0} if slot is None else _parameters(region, slot)
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape, "parameters": parameters}


def _output(name: str, region: str, slot: Slot | None) -> dict[str, Any]:
    return {"name": name, "parameters": {"binary_data": True} if slot is None else _parameters(region, slot)}


def _parameters(region: str, slot: Slot) -> dict[str, Any]:
    return {
        "shared_memory_region": region,
        "shared_memory_offset": slot.offset,
        "shared_memory_byte_size": slot.size,
    }
