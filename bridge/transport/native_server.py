"""gRPC with HTTP/2 in compiled code on the event loop itself: no thread, no lock and one write for each response."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from bridge.errors import InvalidArgument
from bridge.tfserving.rpc import Services
from bridge.transport import native
from bridge.transport.compression import ALGORITHMS
from bridge.transport.native_connection import Connection, ConnectionSettings
from bridge.transport.server import ChannelArguments
from bridge.transport.sockets import UNIX, SocketFile, listen

R = TypeVar("R")

FLUSH_SECONDS = 1.0
"""How long clients whose calls were cancelled may take to read that."""

RECEIVE_BYTES = 256 * 1024
"""How much is received at a time."""

_FIELDS: Mapping[str, str] = {
    "grpc.max_receive_message_length": "max_received",
    "grpc.max_send_message_length": "max_sent",
    "grpc.absolute_max_metadata_size": "max_metadata",
    "grpc.max_concurrent_streams": "max_streams",
}
_COMPRESSION = "grpc.default_compression_algorithm"
_REUSE_PORT = "grpc.so_reuseport"
ARGUMENTS = frozenset({*_FIELDS, _COMPRESSION, _REUSE_PORT})
"""The channel arguments that mean the same here as for grpcio."""


def obstacle(arguments: ChannelArguments) -> str:
    """Why this server cannot serve with `arguments`, empty where it can."""
    if native.MODULE is None:
        return native.PROBLEM
    for name, value in arguments.items():
        if name not in ARGUMENTS:
            return f"it does not know the channel argument {name}"
        if not isinstance(value, int) or (name == _COMPRESSION and value not in (0, *ALGORITHMS)):
            return f"it does not know the value {value} of the channel argument {name}"
    return ""


class NativeServer:
    """An RpcServer. `tls` makes every TCP and Unix address TLS.

    Raises InvalidArgument where it cannot serve with `arguments`.
    """

    def __init__(
        self,
        services: Services,
        *,
        tls: ssl.SSLContext | None = None,
        arguments: ChannelArguments = MappingProxyType({}),
        reuse_port: bool = False,
    ) -> None:
        if problem := obstacle(arguments):
            raise InvalidArgument(f"The native gRPC server cannot be used: {problem}.")
        self._unary = _by_path({name: service.unary for name, service in services.items()})
        self._streams = _by_path({name: service.streams for name, service in services.items()})
        self._settings = _settings(arguments)
        self._reuse_port = bool(arguments.get(_REUSE_PORT, reuse_port))
        self._tls = tls
        self._buffer = bytearray(RECEIVE_BYTES)
        self._listeners: list[asyncio.Server] = []
        self._files: list[SocketFile] = []
        self._connections: set[Connection] = set()
        self._all_closed = asyncio.Event()
        self._stopping = False

    async def start(self, *addresses: str) -> int:
        sockets = [listen(address, reuse_port=self._reuse_port) for address in addresses]
        loop = asyncio.get_running_loop()
        for socket in sockets:
            self._listeners.append(await loop.create_server(self._connect, sock=socket, ssl=self._tls))
        self._files += [SocketFile(address) for address in addresses if address.startswith(UNIX)]
        name = sockets[0].getsockname()
        return int(name[1]) if isinstance(name, tuple) else 1

    async def stop(self, grace: float) -> None:
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        for file in self._files:
            file.remove()
        for connection in tuple(self._connections):
            connection.drain()
        if await self._wait_closed(grace):
            return
        for connection in tuple(self._connections):
            connection.end()
        if not await self._wait_closed(FLUSH_SECONDS):
            for connection in tuple(self._connections):
                connection.abort()

    def _connect(self) -> Connection:
        return Connection(self._unary, self._streams, self._settings, self._buffer, self._connections, self._lost)

    def _lost(self) -> None:
        if self._stopping and not self._connections:
            self._all_closed.set()

    async def _wait_closed(self, seconds: float) -> bool:
        if not self._connections:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._all_closed.wait()
        except TimeoutError:
            return False
        return True


def _by_path(services: Mapping[str, Mapping[str, R]]) -> dict[bytes, R]:
    return {f"/{name}/{method}".encode(): rpc for name, rpcs in services.items() for method, rpc in rpcs.items()}


def _settings(arguments: ChannelArguments) -> ConnectionSettings:
    given = {_FIELDS[name]: int(value) for name, value in arguments.items() if name in _FIELDS}
    compression = ALGORITHMS.get(int(arguments.get(_COMPRESSION, 0)), "")
    return ConnectionSettings(**given, compression=compression)
