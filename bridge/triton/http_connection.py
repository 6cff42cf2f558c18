"""One HTTP/1.1 connection to Triton that carries one request at a time."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Sequence
from typing import cast

from bridge.errors import Code
from bridge.triton import errors
from bridge.triton.calls import CallError, Fault
from bridge.triton.http_messages import Buffer, ProtocolError, Response, ResponseReader
from bridge.triton.outputs import byte_size

JOIN_BYTES = 64 * 1024
"""Requests up to this size are joined for a single write; larger ones go out buffer by buffer, uncopied."""

IDLE_SECONDS = 30.0
"""A connection idle for longer is not used again: proxies close theirs, and a request lost that way may have run."""


class HttpConnection(asyncio.BufferedProtocol):
    """Works on asyncio's and on uvloop's event loop, plain or under TLS."""

    def __init__(self, address: str, on_lost: Callable[[HttpConnection], None]) -> None:
        self._address = address
        self._on_lost = on_lost
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._reader = ResponseReader()
        self._poll = select.poll()
        self._waiter: asyncio.Future[Response] | None = None
        self._failure = "the connection was closed"
        self._idle_since = 0.0
        self._keep_alive = True

    async def exchange(self, request: Sequence[Buffer], deadline: float) -> Response:
        """Send `request`, return its response. `deadline` is a time of the event loop.

        Raises CallError. That and a cancellation close the connection. Triton 24.10 does not notice this before it
        answers; what takes a request that nobody waits for out of its queue is the timeout sent along with it.
        """
        if self._transport.is_closing():
            raise errors.unreachable(self._address, "the connection was closed before the request")
        waiter: asyncio.Future[Response] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_at(deadline, self._expire)
        try:
            self._write(request)
            response = await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._waiter = None
        self._keep_alive = response.keep_alive and not self._transport.get_write_buffer_size()
        self._idle_since = time.monotonic()
        return response

    @property
    def reusable(self) -> bool:
        """The last exchange left the connection open and in order."""
        return self._keep_alive and not self._transport.is_closing()

    @property
    def fresh(self) -> bool:
        """A reusable connection did not idle too long, and its peer neither closed it nor spoke out of turn.

        What the event loop has not delivered yet counts too: the socket itself is asked. So a request hardly ever
        meets a closed connection, where nobody could say whether it was sent, and takes no stray words for its answer.
        """
        return self.reusable and time.monotonic() - self._idle_since < IDLE_SECONDS and not self._poll.poll(0)

    def abort(self) -> None:
        """Close at once; what is in flight fails."""
        self._keep_alive = False
        self._transport.abort()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._idle_since = time.monotonic()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._waiter is None:
            self.abort()
            return
        try:
            response = self._reader.received(nbytes)
        except ProtocolError as error:
            self._failure = str(error)
            self.abort()
            return
        if response is not None and not self._waiter.done():
            self._waiter.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(errors.lost(self._address, str(exc) if exc else self._failure))
        self._on_lost(self)

    def _write(self, request: Sequence[Buffer]) -> None:
        if len(request) == 1:
            self._transport.write(request[0])
        elif sum(map(byte_size, request)) <= JOIN_BYTES:
            self._transport.write(b"".join(request))
        else:
            self._transport.writelines(request)

    def _expire(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            sentence = f"Triton at {self._address} did not answer in time"
            self._waiter.set_exception(CallError(sentence, Code.DEADLINE_EXCEEDED, Fault.CONNECTION))
