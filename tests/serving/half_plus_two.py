"""A test double of Triton with a runner: an in-process InferenceLeg that computes half_plus_two and echoes.

It stands for Triton only where a test is about the request path; the integration tests use the real one.
"""

from __future__ import annotations

import asyncio
import struct

import orjson

from bridge.errors import Code
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor


class FakeLeg:
    """Answers by output name. `faults` are raised first, one a call; `hold` makes calls wait until it is set;
    `late_fault` is raised once, after that wait."""

    def __init__(self, instance: InstanceRoute) -> None:
        self.instance = instance
        self.calls: list[ModelCall] = []
        self.timeouts: list[float] = []
        self.faults: list[CallError] = []
        self.hold: asyncio.Event | None = None
        self.late_fault: CallError | None = None
        self.ping_fault: CallError | None = None
        self.cancelled = 0
        self.closed = False

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        if call.outputs == ["bridge.runner"]:
            return self._pong()
        self.calls.append(call)
        self.timeouts.append(timeout)
        if self.faults:
            raise self.faults.pop(0)
        await self._held(timeout)
        if self.late_fault is not None:
            late, self.late_fault = self.late_fault, None
            raise late
        return [answer(call, name) for name in call.outputs]

    async def close(self) -> None:
        self.closed = True

    def _pong(self) -> list[WireTensor]:
        if self.ping_fault is not None:
            raise self.ping_fault
        return [WireTensor("bridge.runner", "BYTES", (1,), struct.pack("<i", 2) + b"{}")]

    async def _held(self, timeout: float) -> None:
        if self.hold is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await self.hold.wait()
        except TimeoutError:
            raise CallError("Deadline Exceeded", Code.DEADLINE_EXCEEDED, Fault.CONNECTION) from None
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def answer(call: ModelCall, name: str) -> WireTensor:
    """What the model says for one output: `y` and `y3` from `x`, `sum` from `a` and `b`, else the input echoed."""
    inputs = {tensor.name: tensor for tensor in call.inputs}
    if name == "count:0":
        return WireTensor(name, "INT64", (), struct.pack("<q", 7))
    source = {"y:0": "x:0", "y3:0": "x2:0", "sum:0": "a:0"}.get(name, name.replace("echo_", ""))
    tensor = inputs[source]
    shape = tuple(orjson.loads(call.parameters.get("shapes", "{}")).get(source, tensor.shape))
    if source == "z:0":
        shape = (tensor.shape[0] // 2, 2)
    if name in ("y:0", "y3:0"):
        return WireTensor(name, "FP32", shape, _affine(tensor.data, 3.0 if name == "y3:0" else 2.0))
    if name == "sum:0":
        return WireTensor(name, "FP32", shape, _add(tensor.data, inputs["b:0"].data))
    return WireTensor(name, tensor.datatype, shape, tensor.data)


def _floats(data: bytes | bytearray | memoryview) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 4}f", data)


def _affine(data: bytes | bytearray | memoryview, offset: float) -> bytes:
    values = [value / 2 + offset for value in _floats(data)]
    return struct.pack(f"<{len(values)}f", *values)


def _add(first: bytes | bytearray | memoryview, second: bytes | bytearray | memoryview) -> bytes:
    values = [a + b for a, b in zip(_floats(first), _floats(second), strict=True)]
    return struct.pack(f"<{len(values)}f", *values)
