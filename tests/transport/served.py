"""A gRPC server of one test's RPCs on an event loop in a thread: tests use plain blocking clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
import uvloop

from bridge.codec.long_message import LongMessage
from bridge.errors import BridgeError, Code
from bridge.tfserving.rpc import Caller, Service
from bridge.transport import native
from bridge.transport.choice import GRPCIO, NATIVE, OpenServer, opener

T = TypeVar("T")

SERVERS = (GRPCIO, NATIVE) if native.MODULE is not None else (GRPCIO,)
"""Those that this machine has."""
NAME = "test.Service"
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


@dataclass
class Rpcs:
    """What the server under test carries. `callers` are those of the calls so far, `events` what became of them."""

    callers: list[Caller] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    read: int = 0
    written: int = 0

    def service(self) -> Service:
        unary = {
            "Echo": self.echo,
            "Fail": self.fail,
            "Break": self.break_down,
            "Wait": self.wait,
            "Pieces": self.pieces,
        }
        streams = {"EchoAll": self.echo_all, "Count": self.count, "FailLater": self.fail_later, "Hold": self.hold}
        return Service(unary, streams)

    async def echo(self, request: bytes, caller: Caller) -> bytes:
        self.callers.append(caller)
        return request

    async def pieces(self, request: bytes, caller: Caller) -> LongMessage:
        """The request, cut into pieces that get longer and are bytes and views by turns."""
        pieces: list[bytes | memoryview] = [b""]
        start, size = 0, 1
        while start < len(request):
            piece = request[start : start + size]
            pieces += [piece] if len(pieces) % 2 else [memoryview(piece)]
            start, size = start + size, size * 3
        return LongMessage(tuple(pieces))

    async def fail(self, request: bytes, caller: Caller) -> bytes:
        code, _, text = request.decode().partition(" ")
        raise BridgeError(text, Code(int(code)))

    async def break_down(self, request: bytes, caller: Caller) -> bytes:
        raise ZeroDivisionError

    async def wait(self, request: bytes, caller: Caller) -> bytes:
        """Answers after as many seconds as the request says."""
        self.callers.append(caller)
        self.events.append("waits")
        try:
            await asyncio.sleep(float(request))
        except asyncio.CancelledError:
            self.events.append("cancelled")
            raise
        self.events.append("answered")
        return request

    async def echo_all(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        self.callers.append(caller)
        async for request in requests:
            yield request
        yield b"the end"

    async def count(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        """As many messages as the request says, of so many bytes each."""
        request = await anext(requests)
        times, size = map(int, request.split())
        for self.written in range(1, times + 1):
            yield bytes(size)

    async def fail_later(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        yield b"first"
        raise BridgeError("no more", Code.ABORTED)

    async def hold(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        """Reads one request, and the rest when the server's `read` is set below zero."""
        try:
            async for _ in requests:
                self.read += 1
                self.events.append("read")
                await asyncio.sleep(3600)
            yield b""
        finally:
            self.events.append("ended")


class Served:
    """A running server of `Rpcs`, with `open_server` from `bridge.transport.choice`."""

    def __init__(self, open_server: OpenServer, *addresses: str) -> None:
        self.rpcs = Rpcs()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        try:
            self.port = self.run(self._start, open_server, addresses or ("127.0.0.1:0",))
        except BaseException:
            self._end()
            raise

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def run(self, function: Callable[..., Awaitable[T]], *arguments: Any, seconds: float = 30) -> T:
        async def call() -> T:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(seconds)

    def stop(self, grace: float) -> None:
        self.run(self.server.stop, grace)

    def close(self) -> None:
        self.stop(0)
        self._end()

    async def _start(self, open_server: OpenServer, addresses: tuple[str, ...]) -> int:
        self.server = open_server({NAME: self.rpcs.service()})
        return await self.server.start(*addresses)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def served(kind: str, *addresses: str, **options: Any) -> Iterator[Served]:
    server = Served(opener(kind, **options), *addresses)
    try:
        yield server
    finally:
        server.close()


def unary(channel: grpc.Channel, method: str) -> Any:
    return channel.unary_unary(f"/{NAME}/{method}")


def stream(channel: grpc.Channel, method: str) -> Any:
    return channel.stream_stream(f"/{NAME}/{method}")
