"""A gRPC server with nothing but the handlers under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc


@asynccontextmanager
async def grpc_port(*handlers: grpc.GenericRpcHandler) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server with `handlers`, which ends with the block."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)
