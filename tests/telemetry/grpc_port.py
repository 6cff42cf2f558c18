"""A gRPC server with nothing but the services under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from bridge.tfserving.rpc import Services
from bridge.transport.grpcio_server import GrpcioServer


@asynccontextmanager
async def grpc_port(services: Services) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server with `services`, which ends with the block."""
    server = GrpcioServer(services)
    port = await server.start("127.0.0.1:0")
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(0)
