"""The bounded pool of one instance's HTTP connections."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from bridge.errors import Code
from bridge.triton import errors
from bridge.triton.calls import CallError, Fault
from bridge.triton.http_connection import HttpConnection
from bridge.triton.http_messages import Buffer, Response

CONNECT_SECONDS = 5.0
"""How long one connection may take to be made, TLS included."""


class Address(NamedTuple):
    """Where an HTTP server listens; `tls` is None for plain text, `server_name` empty for the host's own name."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ConnectionPool:
    """Lends each connection to one request at a time and makes new ones up to `limit`.

    The connection used last is lent first, so that few stay busy and the rest ages. Past the limit requests wait in
    the order in which they came.
    """

    def __init__(self, address: Address, limit: int) -> None:
        self._address = address
        self._limit = limit
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._dialing = 0
        self._waiters: deque[asyncio.Future[HttpConnection | None]] = deque()
        self._closed = False

    async def acquire(self, deadline: float) -> HttpConnection:
        """A connection that is ready to send, before the event loop's time `deadline`.

        Raises CallError with `sent` False.
        """
        connection = self.take()
        return connection if connection is not None else await self._acquire_slowly(deadline)

    async def exchange(self, request: Sequence[Buffer], deadline: float) -> Response:
        """Send `request` on a connection that is free before `deadline`, return its response. Raises CallError."""
        connection = self.take() or await self.acquire(deadline)
        try:
            return await connection.exchange(request, deadline)
        finally:
            self.release(connection)

    def release(self, connection: HttpConnection) -> None:
        """Give back what `acquire` lent."""
        if connection not in self._open or not connection.reusable or self._closed:
            self._discard(connection)
            self._wake(None)
        elif not self._wake(connection):
            self._idle.append(connection)

    @property
    def full(self) -> bool:
        """Another request would have to wait."""
        return not self._idle and len(self._open) + self._dialing >= self._limit

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self._closed = True
        for connection in tuple(self._open):
            self._discard(connection)
        while self._wake(None):
            pass

    def take(self) -> HttpConnection | None:
        """A connection that nobody uses and that is ready to send, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh:
                return connection
            self._discard(connection)
        return None

    async def _acquire_slowly(self, deadline: float) -> HttpConnection:
        try:
            async with asyncio.timeout_at(deadline):
                while not self._closed:
                    if (connection := self.take()) is not None:
                        return connection
                    if not self.full:
                        return await self._dial()
                    if (connection := await self._wait()) is not None:
                        self._idle.append(connection)
                raise errors.unreachable(str(self._address), "the bridge closed its connections to it")
        except TimeoutError:
            sentence = f"the request got no connection to Triton at {self._address} in time"
            raise CallError(sentence, Code.DEADLINE_EXCEEDED, Fault.BUSY, sent=False) from None

    async def _wait(self) -> HttpConnection | None:
        """The connection of a request that is done, or None once another may be made."""
        waiter: asyncio.Future[HttpConnection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._pass_on(waiter.result())
            raise

    def _pass_on(self, connection: HttpConnection | None) -> None:
        if connection is None:
            self._wake(None)
        else:
            self.release(connection)

    def _wake(self, connection: HttpConnection | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    async def _dial(self) -> HttpConnection:
        self._dialing += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._dialing -= 1
            self._wake(None)
            raise
        self._dialing -= 1
        self._open.add(connection)
        return connection

    async def _connect(self) -> HttpConnection:
        address = self._address
        server_name = (address.server_name or address.host) if address.tls else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(str(address), self._lost),
                    address.host,
                    address.port,
                    ssl=address.tls,
                    server_hostname=server_name,
                )
        except TimeoutError:
            raise errors.unreachable(str(address), f"no connection within {CONNECT_SECONDS:g} s") from None
        except OSError as error:
            raise errors.unreachable(str(address), _reason(error)) from None
        return connection

    def _discard(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        connection.abort()

    def _lost(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake(None)


def _reason(error: OSError) -> str:
    """asyncio puts its own words over those of the operating system, which the gRPC leg shows too."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return error.strerror or str(error)
