"""Which gRPC server carries a port."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

import grpc

from bridge.errors import InvalidArgument
from bridge.tfserving.rpc import Services
from bridge.tfserving.ssl_config import ServerTls
from bridge.transport.grpcio_server import GrpcioServer
from bridge.transport.native_server import NativeServer, obstacle
from bridge.transport.server import ChannelArguments, RpcServer

AUTO, NATIVE, GRPCIO = "auto", "native", "grpcio"

OpenServer = Callable[[Services], RpcServer]
"""Makes the server that carries RPCs. Needs a running event loop."""


def opener(
    kind: str,
    *,
    tls: ServerTls | None = None,
    alts: bool = False,
    arguments: ChannelArguments = MappingProxyType({}),
    reuse_port: bool = False,
) -> OpenServer:
    """Makes servers of a kind. AUTO is native for clear text, where that was built and knows all `arguments`.

    Raises InvalidArgument where NATIVE is asked for and cannot do what else is asked for.
    """
    problem = "ALTS is grpcio's alone" if alts else obstacle(arguments)
    if kind == NATIVE and problem:
        raise InvalidArgument(f"--grpc_server=native cannot be used: {problem}.")
    if kind == NATIVE or (kind == AUTO and not problem and tls is None):
        context = tls.ssl_context("h2") if tls else None
        return partial(NativeServer, tls=context, arguments=arguments, reuse_port=reuse_port)
    credentials = grpc.alts_server_credentials() if alts else tls.grpc_credentials() if tls else None
    return partial(GrpcioServer, credentials=credentials, arguments=arguments, reuse_port=reuse_port)
