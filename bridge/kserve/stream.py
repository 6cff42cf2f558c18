"""ModelStreamInfer: many requests on one call.

SavedModels answer in the order of the requests, as Triton's models do that answer once. What passes through to other
models may have any number of answers, which are sent on as they come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from time import monotonic, perf_counter
from typing import Any

from tritonclient.grpc import service_pb2

from bridge.errors import BridgeError, Code
from bridge.kserve.forwarding import Relay
from bridge.kserve.inference import sequence
from bridge.kserve.messages import InferRequest, InferResponse, infer_request
from bridge.telemetry.observers import RequestObserver
from bridge.tfserving.rpc import Caller

logger = logging.getLogger(__name__)

PIPELINE = 32
"""Requests of one stream that are in work at a time; reading of the next ones waits."""
FINAL = "triton_final_response"
"""The parameter by which Triton's clients know that a request has no more answers."""

NAME = "ModelStreamInfer"

Infer = Callable[[InferRequest, Caller, Relay], Awaitable[InferResponse | None]]
"""Answers one request: `V2Inference.stream` for a caller."""


class Stream:
    """The RPC over `infer`. An error ends a request, not the stream.

    `observe` is told of each request, `used` the bytes of each message.
    """

    def __init__(self, infer: Infer, observe: RequestObserver, used: Callable[[int], None]) -> None:
        self._infer = infer
        self._observe = observe
        self._used = used

    async def responses(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        """The RPC."""
        sequences: dict[tuple[str, str], asyncio.Lock] = {}
        deadline = None if caller.timeout is None else monotonic() + caller.timeout

        async def answer(request: bytes, send: Callable[[bytes], Awaitable[None]]) -> bytes | None:
            now = caller if deadline is None else caller._replace(timeout=deadline - monotonic())
            return await self._answer(request, now, sequences, send)

        async for response in Pipeline(answer).responses(requests):
            self._used(len(response))
            yield response

    async def _answer(
        self,
        request: bytes,
        caller: Caller,
        sequences: dict[tuple[str, str], asyncio.Lock],
        send: Callable[[bytes], Awaitable[None]],
    ) -> bytes | None:
        """The one response to `request`, or None where all were sent. Requests of one sequence run one by one."""

        async def relay(message: Any) -> None:
            await send(message.SerializeToString())

        started, code, id = perf_counter(), Code.CANCELLED, ""
        try:
            message = infer_request(request)
            id = message.head.id
            async with _turn(message.head, sequences):
                response = await self._infer(message, caller, relay)
            code = Code.OK
            return None if response is None else _final(response)
        except BridgeError as error:
            code = error.code
            return _failed(id, error.message)
        except Exception:
            code = Code.INTERNAL
            logger.exception("A request of a stream failed by a fault of the bridge")
            return _failed(id, "Internal error of the bridge; its log says more.")
        finally:
            self._observe(NAME, code, perf_counter() - started)
            self._used(len(request))


def _turn(head: Any, sequences: dict[tuple[str, str], asyncio.Lock]) -> AbstractAsyncContextManager[None]:
    """Held while a request of a sequence runs, in the order in which they asked for it."""
    id = sequence(head)
    return sequences.setdefault((head.model_name, id), asyncio.Lock()) if id else nullcontext()


def _final(response: InferResponse) -> bytes:
    response.head.parameters[FINAL].bool_param = True
    return response.serialized_for_stream()


def _failed(id: str, sentence: str) -> bytes:
    message = service_pb2.ModelStreamInferResponse(error_message=sentence, infer_response={"id": id})
    data: bytes = message.SerializeToString()
    return data


Answer = Callable[[bytes, Callable[[bytes], Awaitable[None]]], Awaitable[bytes | None]]
"""Answers a request: by its return value, which waits for its turn, or by any number of calls, which do not."""


class Pipeline:
    """The requests of one stream, of which `limit` are in work at a time."""

    def __init__(self, answer: Answer, limit: int = PIPELINE) -> None:
        self._answer = answer
        self._slots = asyncio.Semaphore(limit)
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue(limit)
        self._tasks: set[asyncio.Task[None]] = set()

    async def responses(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The answers to `requests`, until the last one is answered."""
        reader = asyncio.create_task(self._read(requests))
        try:
            while (response := await self._out.get()) is not None:
                yield response
            await reader
        finally:
            tasks = [reader, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[bytes]) -> None:
        try:
            turn = asyncio.get_running_loop().create_future()
            turn.set_result(None)
            async for request in requests:
                await self._slots.acquire()
                following = asyncio.get_running_loop().create_future()
                task = asyncio.create_task(self._serve(request, turn, following))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                turn = following
            await asyncio.gather(*self._tasks)
        finally:
            await self._out.put(None)

    async def _serve(self, request: bytes, turn: asyncio.Future[None], following: asyncio.Future[None]) -> None:
        try:
            response = await self._answer(request, self._out.put)
            if response is not None:
                await asyncio.wait((turn,))
                await self._out.put(response)
        finally:
            turn.add_done_callback(lambda _: following.set_result(None))
            self._slots.release()
