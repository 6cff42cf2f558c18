"""Which gRPC server carries a port."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

import grpc

from bridge.tfserving.rpc import Services
from bridge.transport.grpcio_server import GrpcioServer
from bridge.transport.server import ChannelArguments, RpcServer


def opener(
    kind: str,
    *,
    credentials: grpc.ServerCredentials | None = None,
    arguments: ChannelArguments = MappingProxyType({}),
    reuse_port: bool = False,
) -> Callable[[Services], RpcServer]:
    """Makes servers of `kind`: grpcio, native, or auto."""
    return partial(GrpcioServer, credentials=credentials, arguments=arguments, reuse_port=reuse_port)
