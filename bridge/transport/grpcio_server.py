"""gRPC by grpcio: everything that gRPC has, with a lock and several threads between socket and event loop."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import NoReturn, TypeAlias

import grpc

from bridge.errors import BridgeError, Code
from bridge.tfserving.rpc import FAULT, Caller, Rpc, Service, Services, StreamRpc, status_message
from bridge.transport.server import ChannelArguments, GrpcBindError

logger = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"

_OPTIONS: ChannelArguments = {
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
}
"""Messages of any size."""

_STATUS_CODES = {Code(status.value[0]): status for status in grpc.StatusCode}
_NO_DEADLINE = 1e9
"""Seconds; gRPC shows a call without deadline as one of some hundred years."""


class GrpcioServer:
    """An RpcServer. `credentials` make every address TLS or ALTS. With `reuse_port` servers in other processes may
    share the port; else a second server on it is an error."""

    def __init__(
        self,
        services: Services,
        *,
        credentials: grpc.ServerCredentials | None = None,
        arguments: ChannelArguments = MappingProxyType({}),
        reuse_port: bool = False,
    ) -> None:
        self._credentials = credentials
        options = {**_OPTIONS, "grpc.so_reuseport": int(reuse_port), **arguments}
        self._server = grpc.aio.server(options=tuple(options.items()))
        secure = credentials is not None
        handlers = [_generic(name, service, secure) for name, service in services.items()]
        self._server.add_generic_rpc_handlers([*handlers, UnknownMethods()])

    async def start(self, *addresses: str) -> int:
        ports = [self._bind(address) for address in addresses]
        await self._server.start()
        return ports[0]

    async def stop(self, grace: float) -> None:
        await self._server.stop(grace)

    def _bind(self, address: str) -> int:
        try:
            if self._credentials is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise GrpcBindError(address) from error


def _generic(name: str, service: Service, secure: bool) -> grpc.GenericRpcHandler:
    handlers: dict[str, Handler] = {
        **{method: _unary(rpc, secure) for method, rpc in service.unary.items()},
        **{method: _stream(rpc, secure) for method, rpc in service.streams.items()},
    }
    return grpc.method_handlers_generic_handler(name, handlers)


def _unary(rpc: Rpc, secure: bool) -> Handler:
    async def handle(request: bytes, context: Context) -> bytes:
        try:
            return bytes(await rpc(request, _caller(context, secure)))
        except Exception as error:
            await _abort(context, error)

    return grpc.unary_unary_rpc_method_handler(handle)


def _stream(rpc: StreamRpc, secure: bool) -> Handler:
    async def handle(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        try:
            async for response in rpc(requests, _caller(context, secure)):
                yield response
        except Exception as error:
            await _abort(context, error)

    return grpc.stream_stream_rpc_method_handler(handle)


async def _abort(context: Context, error: Exception) -> NoReturn:
    """End the call with the status of `error`, which is how grpcio's own exceptions end it, too."""
    if isinstance(error, grpc.aio.BaseError):
        raise error
    if isinstance(error, BridgeError):
        await context.abort(_STATUS_CODES[error.code], status_message(error.message))
    logger.error("An RPC failed by a fault of the bridge", exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, FAULT)


class UnknownMethods(grpc.GenericRpcHandler):
    """Answers whatever no other handler knows as a C++ server does: UNIMPLEMENTED without a text."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        return grpc.stream_stream_rpc_method_handler(_refuse)


async def _refuse(requests: object, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "")


def _caller(context: Context, secure: bool) -> Caller:
    entries = context.invocation_metadata() or ()
    metadata = {key: value for key, value in entries if isinstance(value, str)}
    certificate = _certificate(context) if secure else b""
    return Caller(_time_remaining(context), context.peer(), metadata, tuple(entries), certificate)


def _certificate(context: Context) -> bytes:
    return b"".join(context.auth_context().get("x509_pem_cert", ()))


def _time_remaining(context: Context) -> float | None:
    remaining = context.time_remaining()
    return None if remaining is None or remaining > _NO_DEADLINE else remaining
