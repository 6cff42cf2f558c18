"""One client's connection to the fast gRPC server, on the event loop."""

from __future__ import annotations

import asyncio
import logging
import ssl
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from bridge.codec.long_message import LongMessage
from bridge.errors import BridgeError, Code, Internal
from bridge.tfserving.rpc import FAULT, Caller, Rpc, StreamRpc
from bridge.transport import native
from bridge.transport.compression import compressed, decompressed
from bridge.transport.sockets import peer_name
from bridge.transport.statuses import encoded

logger = logging.getLogger(__name__)

T = TypeVar("T")

GREETING_SECONDS = 120.0
"""How long a client may take to begin to speak."""
GOODBYE_SECONDS = 1.0
"""How long a client may take to acknowledge that the server drains; calls that it sent until then are answered."""
UNSENT_BYTES = 256 * 1024
"""Responses of one stream that may wait for the client; the stream's next one waits."""
LARGE = 1 << 20
"""Bytes of a message whose compression is left to a thread."""

_UNARY = 0
"""The kind of the event that is met by far the most, as a constant of this module."""

Output = bytes | list[bytes | memoryview]
"""What a session has to send; a list where it holds long messages."""

Entries = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True)
class ConnectionSettings:
    """Sizes in bytes, -1 is none. `compression` is what responses are compressed by, where clients take that."""

    max_received: int = -1
    max_sent: int = -1
    max_metadata: int = 16 * 1024
    max_streams: int = 1_000_000
    compression: str = ""


class Connection(asyncio.BufferedProtocol):
    """Runs RPCs as tasks. `unary` and `streams` hold them by path, `buffer` is where its bytes are received.

    That buffer may be shared by all connections of a loop, since received bytes are worked on at once. It is one of
    `open_connections` as long as it is open, and calls `on_lost` then.
    """

    def __init__(
        self,
        unary: dict[bytes, Rpc],
        streams: dict[bytes, StreamRpc],
        settings: ConnectionSettings,
        buffer: bytearray,
        open_connections: set[Connection],
        on_lost: Callable[[], None],
    ) -> None:
        assert native.MODULE is not None
        self._events = native.MODULE
        self._settings = settings
        self._buffer = buffer
        self._open_connections = open_connections
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._session = native.MODULE.Session(
            unary, streams, settings.max_received, settings.max_metadata, settings.max_streams
        )
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._requests: dict[int, _Requests] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._draining = False
        self._said_goodbye = False
        self._greeting: asyncio.TimerHandle | None = None
        self._certificate = b""

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open_connections.add(self)
        self._peer = peer_name(transport.get_extra_info("peername"))
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            shown = secured.getpeercert(binary_form=True)
            self._certificate = ssl.DER_cert_to_PEM_cert(shown).encode() if shown else b""
        self._greeting = self._loop.call_later(GREETING_SECONDS, self._transport.abort)
        self._transport.write(self._session.output())

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            events = self._session.receive(self._buffer, nbytes)
        except (self._events.Http2Error, MemoryError) as error:
            logger.debug("%s does not speak gRPC: %s", self._peer, error)
            self._transport.abort()
            return
        for event in events:
            if event[0] == _UNARY:
                self._start_unary(*event[1:])
            else:
                self._on_event(event)
        if self._greeting is not None:
            self._greeting.cancel()
            self._greeting = None
        if self._waiters:
            self._wake()
        self._write(self._session.output())
        if self._session.over:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._greeting is not None:
            self._greeting.cancel()
        for task in tuple(self._tasks.values()):
            task.cancel()
        self._wake()
        self._open_connections.discard(self)
        self._on_lost()

    def pause_writing(self) -> None:
        """A client that does not read what it is sent may not ask for more."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    # the end

    def drain(self) -> None:
        """Announce the end: calls that are on their way are taken, then the connection closes with its last call."""
        self._draining = True
        self._write(self._session.shut_down())
        self._loop.call_later(GOODBYE_SECONDS, self._say_goodbye)

    def end(self) -> None:
        """Cancel what is in flight and close."""
        for call, task in tuple(self._tasks.items()):
            self._write(self._session.finish(call, Code.UNAVAILABLE, encoded("The server is shutting down.")))
            task.cancel()
        self._transport.close()

    def abort(self) -> None:
        """Close, whatever the client has not read yet."""
        self._transport.abort()

    def _say_goodbye(self) -> None:
        if not self._said_goodbye and not self._transport.is_closing():
            self._said_goodbye = True
            self._write(self._session.go_away())
            self._close_if_over()

    def _close_if_over(self) -> None:
        if self._said_goodbye and not self._session.calls:
            self._transport.close()

    # calls

    def _on_event(self, event: tuple[Any, ...]) -> None:
        kind, events = event[0], self._events
        if kind == events.STREAM:
            self._start_stream(*event[1:])
        elif kind == events.CANCELLED:
            self._cancel(event[1])
        elif kind == events.MESSAGE:
            if requests := self._requests.get(event[1]):
                requests.put(event[2:])
        elif kind == events.END:
            if requests := self._requests.get(event[1]):
                requests.put(None)
        elif kind == events.PONG and self._draining:
            self._say_goodbye()

    def _start_unary(
        self,
        call: int,
        rpc: Rpc,
        message: bytes,
        entries: Entries,
        timeout: float | None,
        encoding: str | None,
        accepts: str | None,
    ) -> None:
        caller = self._caller(entries, timeout)
        if encoding is None and not self._settings.compression:
            self._start(call, self._unary(call, rpc, message, caller), timeout)
        else:
            coded = Coding(self._settings, encoding, accepts)
            self._start(call, self._coded_unary(call, rpc, message, caller, coded), timeout)

    def _start_stream(
        self,
        call: int,
        rpc: StreamRpc,
        message: None,
        entries: Entries,
        timeout: float | None,
        encoding: None,
        accepts: str | None,
    ) -> None:
        requests = self._requests[call] = _Requests(lambda: self._write(self._session.take(call)), self._settings)
        coding = Coding(self._settings, None, accepts)
        self._start(call, self._stream(call, rpc, requests, self._caller(entries, timeout), coding), timeout)

    def _start(self, call: int, work: Coroutine[Any, Any, None], timeout: float | None) -> None:
        self._tasks[call] = self._loop.create_task(work)
        if timeout is not None:
            self._timers[call] = self._loop.call_later(timeout, self._expire, call)

    def _caller(self, entries: Entries, timeout: float | None) -> Caller:
        metadata = {key: value for key, value in entries if type(value) is str}
        if len(metadata) != len(entries):
            entries = tuple([_decoded(entry) for entry in entries])
        return Caller(timeout, self._peer, metadata, entries, self._certificate)

    async def _unary(self, call: int, rpc: Rpc, message: bytes, caller: Caller) -> None:
        try:
            response = await rpc(message, caller)
            if 0 <= self._settings.max_sent < len(response):
                raise _too_large(len(response), self._settings.max_sent)
            out = self._session.respond(call, response.pieces if isinstance(response, LongMessage) else response)
        except Exception as error:
            out = self._failed(call, error)
        finally:
            self._ended(call)
        self._write(out)

    async def _coded_unary(self, call: int, rpc: Rpc, message: bytes, caller: Caller, coding: Coding) -> None:
        try:
            response = await rpc(await coding.read(message), caller)
            out = self._session.respond(call, *await coding.written(bytes(response)))
        except Exception as error:
            out = self._failed(call, error)
        finally:
            self._ended(call)
        self._write(out)

    async def _stream(self, call: int, rpc: StreamRpc, requests: _Requests, caller: Caller, coding: Coding) -> None:
        try:
            async with aclosing(cast(Any, rpc(requests, caller))) as responses:
                async for response in responses:
                    self._write(self._session.send(call, *await coding.written(response)))
                    await self._sent(call)
            out = self._session.finish(call, Code.OK, b"")
        except Exception as error:
            out = self._failed(call, error)
        finally:
            del self._requests[call]
            self._ended(call)
        self._write(out)

    async def _sent(self, call: int) -> None:
        while self._session.unsent(call) > UNSENT_BYTES and not self._transport.is_closing():
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _failed(self, call: int, error: Exception) -> Output:
        if not isinstance(error, BridgeError):
            logger.error("An RPC failed by a fault of the bridge", exc_info=error)
            error = Internal(FAULT)
        out: Output = self._session.finish(call, error.code, encoded(error.message))
        return out

    def _expire(self, call: int) -> None:
        self._write(self._session.finish(call, Code.DEADLINE_EXCEEDED, b"Deadline Exceeded"))
        self._cancel(call)

    def _cancel(self, call: int) -> None:
        if task := self._tasks.get(call):
            task.cancel()

    def _ended(self, call: int) -> None:
        del self._tasks[call]
        if self._timers and (timer := self._timers.pop(call, None)):
            timer.cancel()
        if self._draining:
            self._loop.call_soon(self._close_if_over)

    def _write(self, data: Output) -> None:
        if type(data) is list:
            self._transport.writelines(data)
        elif data:
            self._transport.write(cast(bytes, data))

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Coding:
    """How the messages of one call are compressed."""

    def __init__(self, settings: ConnectionSettings, encoding: str | None, accepts: str | None) -> None:
        self._settings = settings
        self._encoding = encoding
        offered = [item.strip() for item in (accepts or "").split(",")]
        self._compression = settings.compression if settings.compression in offered else ""

    async def read(self, message: bytes) -> bytes:
        """A message as the client meant it. Raises BridgeError."""
        return await _read(message, self._encoding, self._settings.max_received)

    async def written(self, message: bytes) -> tuple[bytes, str | None]:
        """What to send for `message`, and what that was compressed by. Raises BridgeError."""
        if 0 <= self._settings.max_sent < len(message):
            raise _too_large(len(message), self._settings.max_sent)
        if not self._compression:
            return message, None
        smaller = await _run(len(message), partial(compressed, message, self._compression))
        return (message, None) if smaller is None else (smaller, self._compression)


class _Requests:
    """The requests of a stream, in their order. `taken` is called for each one that was read."""

    def __init__(self, taken: Callable[[], None], settings: ConnectionSettings) -> None:
        self._taken = taken
        self._limit = settings.max_received
        self._queue: asyncio.Queue[tuple[bytes, str | None] | None] = asyncio.Queue()
        self._over = False

    def put(self, item: tuple[bytes, str | None] | None) -> None:
        """A message with its encoding, or None after the last one."""
        self._queue.put_nowait(item)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        item = None if self._over else await self._queue.get()
        if item is None:
            self._over = True
            raise StopAsyncIteration
        self._taken()
        return await _read(*item, self._limit)


async def _read(message: bytes, encoding: str | bool | None, limit: int) -> bytes:
    if encoding is None:
        return message
    if not isinstance(encoding, str) or encoding == "identity":
        raise Internal("The message is compressed, and its call does not say how.")
    return await _run(len(message), partial(decompressed, message, encoding, limit))


async def _run(size: int, function: Callable[[], T]) -> T:
    """The result of `function`, from a thread where it works on many bytes."""
    return function() if size < LARGE else await asyncio.to_thread(function)


def _decoded(entry: tuple[str, str | bytes]) -> tuple[str, str | bytes]:
    """A binary entry's value comes as base64, with or without its padding; one that is not stays as it is."""
    key, value = entry
    if isinstance(value, str):
        return entry
    try:
        return key, b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except Base64Error:
        return entry


def _too_large(size: int, limit: int) -> BridgeError:
    return BridgeError(f"Sent message larger than max ({size} vs. {limit})", Code.RESOURCE_EXHAUSTED)
