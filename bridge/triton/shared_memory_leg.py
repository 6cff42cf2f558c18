"""The leg for large tensors on one host: they lie in memory that Triton maps, HTTP carries the words about them.

What Triton writes an output to has to be large enough, which it finds out after the model ran. So outputs take this way
only where earlier answers tell their sizes, and never where running the model twice would make a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any

import orjson

from bridge.errors import Code
from bridge.telemetry.observers import CallObserver
from bridge.triton import errors
from bridge.triton.calls import CallError, Fault, InferenceLeg, ModelCall, WireTensor
from bridge.triton.errors import UNKNOWN_REGION
from bridge.triton.http_leg import HttpLeg
from bridge.triton.http_messages import ProtocolError
from bridge.triton.metered_leg import counted
from bridge.triton.output_sizes import OutputSizes
from bridge.triton.outputs import byte_size
from bridge.triton.shared_memory_messages import Layout, Messages, answer, layout
from bridge.triton.shared_memory_pool import Lease, RegionPool

_TOO_SMALL = "should be at least"


class SharedMemoryLeg:
    """An InferenceLeg over regions of `pool`. Where none is to be had, calls go by `others`, and are counted there.

    `sizes` are learned from the calls of this leg; those of `others` may add to them.
    """

    def __init__(
        self,
        pool: RegionPool,
        http: HttpLeg,
        others: InferenceLeg,
        headers: Mapping[str, str],
        sizes: OutputSizes,
        observe: CallObserver,
    ) -> None:
        self._pool = pool
        self._http = http
        self._others = others
        self._messages = Messages(http.address, headers)
        self._sizes = sizes
        self._observe = observe
        self._loop_time = asyncio.get_running_loop().time

    def infer(self, call: ModelCall, timeout: float) -> Coroutine[Any, Any, list[WireTensor]]:
        return self._infer(call, timeout) if self._takes(call) else self._others.infer(call, timeout)

    async def forward(self, method: str, request: bytes, timeout: float) -> bytes:
        return await self._others.forward(method, request, timeout)

    def stream(self, request: bytes, timeout: float) -> AsyncIterator[bytes]:
        return self._others.stream(request, timeout)

    async def close(self) -> None:
        await self._pool.close()
        await self._others.close()

    def _takes(self, call: ModelCall) -> bool:
        if self._pool.resting or self._http.full:
            return False
        size = 0
        for tensor in call.inputs:
            size += byte_size(tensor.data)
        return size >= self._sizes.large or (
            call.repeatable and self._sizes.knows(call.model) and bool(self._sizes.expected(call))
        )

    async def _infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        deadline = self._loop_time() + timeout
        place = layout(call, self._sizes.expected(call) if call.repeatable else {})
        for _ in range(2):
            lease = await self._pool.lease(place.size, deadline)
            if lease is None:
                break
            try:
                with counted(self._observe):
                    return await self._try(lease, call, place, deadline)
            except CallError as error:
                if UNKNOWN_REGION not in error.message:
                    raise
                self._pool.forget()
        else:
            self._pool.rest()
        return await self._others.infer(call, deadline - self._loop_time())

    async def _try(self, lease: Lease, call: ModelCall, place: Layout, deadline: float) -> list[WireTensor]:
        try:
            outputs = await self._run(lease, call, place, deadline)
        except CallError as error:
            if error.fault is Fault.CONNECTION and error.sent:
                lease.discard()
            else:
                lease.release()
            raise
        except BaseException:
            lease.discard()
            raise
        lease.release()
        self._sizes.learn(call, outputs)
        return outputs

    async def _run(self, lease: Lease, call: ModelCall, place: Layout, deadline: float) -> list[WireTensor]:
        for tensor in call.inputs:
            if tensor.name in place.inputs:
                await lease.write(place.inputs[tensor.name].offset, tensor.data)
        try:
            return await self._exchange(lease, call, place, deadline)
        except CallError as error:
            if not (place.outputs and _TOO_SMALL in error.message):
                raise
        self._sizes.distrust(call)
        return await self._exchange(lease, call, Layout(place.inputs, {}, place.size), deadline)

    async def _exchange(self, lease: Lease, call: ModelCall, place: Layout, deadline: float) -> list[WireTensor]:
        request = self._messages.request(call, lease.name, place, deadline - self._loop_time())
        response = await self._http.pool.exchange([request], deadline)
        if response.status != 200:
            raise errors.from_http(response.status, response.body, self._http.address)
        try:
            return answer(response, call, lease.view(), place)
        except (ProtocolError, orjson.JSONDecodeError, KeyError) as error:
            sentence = f"Triton at {self._http.address} sent an answer that cannot be read: {error}"
            raise CallError(sentence, Code.INTERNAL, Fault.CONNECTION) from None
