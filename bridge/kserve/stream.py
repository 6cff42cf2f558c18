"""ModelStreamInfer: many requests on one call, each answered as ModelInfer answers it, in their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc
from tritonclient.grpc import service_pb2

from bridge.errors import BridgeError, Code
from bridge.telemetry.observers import RequestObserver
from bridge.tfserving.messages import parse
from bridge.tfserving.rpc import Caller, caller_of

logger = logging.getLogger(__name__)

PIPELINE = 32
"""Requests of one stream that run at a time; reading of the next ones waits."""
FINAL = "triton_final_response"
"""The parameter by which Triton's clients know that a request has no more answers."""

NAME = "ModelStreamInfer"

Infer = Callable[[Any, Caller], Awaitable[Any]]
Context = grpc.aio.ServicerContext[bytes, bytes]


class Stream:
    """The RPC over `infer`. An error ends a request, not the stream."""

    def __init__(self, infer: Infer) -> None:
        self._infer = infer

    def handler(self, observe: RequestObserver, used: Callable[[int], None]) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler; `observe` and `used` are told of each request within the stream."""

        async def handle(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            async def answer(request: bytes) -> bytes:
                started, code = perf_counter(), Code.CANCELLED
                try:
                    response, code = await self._answer(request, caller_of(context))
                    used(len(request) + len(response))
                    return response
                finally:
                    observe(NAME, code, perf_counter() - started)

            async for response in in_order(requests, answer):
                yield response

        return grpc.stream_stream_rpc_method_handler(handle)

    async def _answer(self, request: bytes, caller: Caller) -> tuple[bytes, Code]:
        """A serialized ModelStreamInferResponse, and how the request ended."""
        response = service_pb2.ModelStreamInferResponse()
        code = Code.OK
        request_id = ""
        try:
            message = parse(service_pb2.ModelInferRequest, request)
            request_id = message.id
            response.infer_response.CopyFrom(await self._infer(message, caller))
            response.infer_response.parameters[FINAL].bool_param = True
        except BridgeError as error:
            code, response.error_message = error.code, error.message
            response.infer_response.id = request_id
        except Exception:
            logger.exception("A request of a stream failed by a fault of the bridge")
            code, response.error_message = Code.INTERNAL, "Internal error of the bridge; its log says more."
        return response.SerializeToString(), code


async def in_order(
    requests: AsyncIterator[bytes], answer: Callable[[bytes], Awaitable[bytes]], limit: int = PIPELINE
) -> AsyncIterator[bytes]:
    """The answers in the order of the requests, of which `limit` are in work at a time."""
    tasks: asyncio.Queue[asyncio.Future[bytes] | None] = asyncio.Queue(limit)
    pending: set[asyncio.Future[bytes]] = set()

    async def read() -> None:
        try:
            async for request in requests:
                task = asyncio.ensure_future(answer(request))
                pending.add(task)
                await tasks.put(task)
        finally:
            await tasks.put(None)

    reader = asyncio.ensure_future(read())
    try:
        while (task := await tasks.get()) is not None:
            yield await task
            pending.discard(task)
        await reader
    finally:
        left: list[asyncio.Future[Any]] = [reader, *pending]
        for future in left:
            future.cancel()
        await asyncio.gather(*left, return_exceptions=True)
