"""The HTTP leg against servers that misbehave as no real Triton does on demand."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import orjson
import pytest

from bridge.errors import Code
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from bridge.triton.http_leg import HttpLeg
from bridge.triton.http_pool import Address

CALL = ModelCall("m", [WireTensor("x", "UINT8", (3,), b"abc")], ["y"])
LARGE = ModelCall("m", [WireTensor("x", "UINT8", (20_000_000,), bytes(20_000_000))], ["y"])


def answer(data: bytes = b"abc", *fields: bytes) -> bytes:
    output = {"name": "y", "datatype": "UINT8", "shape": [len(data)], "parameters": {"binary_data_size": len(data)}}
    head = orjson.dumps({"outputs": [output]})
    lengths = (b"Content-Length: %d" % (len(head) + len(data)), b"Inference-Header-Content-Length: %d" % len(head))
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lengths, *fields, b"", head + data])


class Peer:
    """One connection's server side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
        return await self.reader.readexactly(length)

    async def answer(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def serving(*scripts: Script, limit: int = 256) -> AsyncIterator[HttpLeg]:
    """A leg to a server that plays one script for each connection, in order, and the last for the rest."""
    remaining = list(scripts)
    failures: list[BaseException] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        try:
            await script(Peer(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception as error:
            failures.append(error)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    leg = HttpLeg(Address("127.0.0.1", port), limit=limit)
    try:
        yield leg
    finally:
        await leg.close()
        server.close()
        await server.wait_closed()
    assert not failures


async def obey(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.answer(answer())


async def fails(leg: HttpLeg, call: ModelCall = CALL) -> CallError:
    with pytest.raises(CallError) as caught:
        await leg.infer(call, 5)
    return caught.value


async def test_connections_are_used_again() -> None:
    connections = 0

    async def count(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        await obey(peer)

    async with serving(count) as leg:
        for _ in range(5):
            await leg.infer(CALL, 5)
        assert connections == 1
        await asyncio.gather(*(leg.infer(CALL, 5) for _ in range(4)))
        assert connections <= 4


async def test_connection_closed_while_idle_costs_nothing() -> None:
    closed = asyncio.Event()

    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.answer(answer())
        peer.writer.close()
        await peer.writer.wait_closed()
        closed.set()

    async with serving(once) as leg:
        for _ in range(5):
            closed.clear()
            await leg.infer(CALL, 5)
            await closed.wait()


async def test_close_that_the_event_loop_has_not_seen_is_found_before_sending() -> None:
    """The socket knows of the peer's FIN as soon as it arrives: no request is written onto such a connection."""

    async def last(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(answer())
        peer.writer.write_eof()
        await peer.reader.read()

    async with serving(last, obey) as leg:
        await leg.infer(CALL, 5)
        await leg.infer(CALL, 5)


async def test_reset_under_a_request_is_lost() -> None:
    async def reset(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async with serving(reset, obey) as leg:
        error = await fails(leg)
        assert (error.code, error.fault, error.sent) == (Code.UNAVAILABLE, Fault.CONNECTION, True)
        assert "went away during the request" in error.message
        await leg.infer(CALL, 5)


@pytest.mark.parametrize("part", [b"HTTP/1.1 200", answer()[:-1], answer(bytes(1_000_000))[:-1]])
async def test_answer_that_breaks_off_is_lost(part: bytes) -> None:
    async def break_off(peer: Peer) -> None:
        await peer.request()
        await peer.answer(part)

    async with serving(break_off, obey) as leg:
        error = await fails(leg)
        assert (error.code, error.fault, error.sent) == (Code.UNAVAILABLE, Fault.CONNECTION, True)
        await leg.infer(CALL, 5)


@pytest.mark.parametrize(
    "garbage", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", bytes(20_000)]
)
async def test_garbage_closes_the_connection(garbage: bytes) -> None:
    async def babble(peer: Peer) -> None:
        await peer.request()
        await peer.answer(garbage)
        await peer.reader.read()

    async with serving(babble, obey) as leg:
        assert (await fails(leg)).fault is Fault.CONNECTION
        await leg.infer(CALL, 5)


@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_words_out_of_turn_close_the_connection(pause: float) -> None:
    async def babble(peer: Peer) -> None:
        await peer.request()
        await peer.answer(answer())
        await asyncio.sleep(pause)
        await peer.answer(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        assert await peer.reader.read() == b""

    async with serving(babble, obey) as leg:
        await leg.infer(CALL, 5)
        await asyncio.sleep(2 * pause)
        await leg.infer(CALL, 5)


@pytest.mark.parametrize("body", [b"not json", b'{"outputs":[{}]}', b"{}"])
async def test_unreadable_answer(body: bytes) -> None:
    async def babble(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with serving(babble) as leg:
        error = await fails(leg)
        assert error.code is Code.INTERNAL
        assert "sent an answer that cannot be read" in error.message


async def test_refusal_before_the_body_was_read() -> None:
    async def refuse(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.answer(b'HTTP/1.1 413 Too Large\r\nContent-Length: 20\r\n\r\n{"error":"too large"}'[:-1])
        await peer.answer(b"}")
        await asyncio.sleep(0.2)

    async with serving(refuse, obey) as leg:
        error = await fails(leg, LARGE)
        assert error.code in (Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE)
        await leg.infer(CALL, 5)


async def test_connection_close_is_heeded() -> None:
    async def last(peer: Peer) -> None:
        await peer.request()
        await peer.answer(answer(b"abc", b"Connection: close"))
        await peer.reader.read()

    async with serving(last) as leg:
        for _ in range(3):
            await leg.infer(CALL, 5)


async def test_limit_bounds_connections_and_nobody_starves() -> None:
    open_now = most = 0

    async def slow(peer: Peer) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        try:
            while True:
                await peer.request()
                await asyncio.sleep(0.005)
                await peer.answer(answer())
        finally:
            open_now -= 1

    async with serving(slow, limit=3) as leg:
        finished: list[int] = []

        async def call(number: int) -> None:
            await leg.infer(CALL, 5)
            finished.append(number)

        await asyncio.gather(*(call(number) for number in range(30)))
        assert most == 3
        assert all(abs(number - place) < 6 for place, number in enumerate(finished))


async def test_waiting_for_a_connection_ends_with_the_deadline() -> None:
    async def hang(peer: Peer) -> None:
        await peer.reader.read()

    async with serving(hang, limit=1) as leg:
        first = asyncio.create_task(leg.infer(CALL, 0.4))
        await asyncio.sleep(0.05)
        assert leg.full
        with pytest.raises(CallError, match=r"got no connection to Triton .* in time") as caught:
            await leg.infer(CALL, 0.1)
        assert (caught.value.code, caught.value.sent) == (Code.DEADLINE_EXCEEDED, False)
        with pytest.raises(CallError, match="did not answer in time"):
            await first
        assert not leg.full


async def test_cancelled_waiters_pass_their_turn_on() -> None:
    async with serving(obey, limit=1) as leg:
        for _ in range(20):
            calls = [asyncio.create_task(leg.infer(CALL, 5)) for _ in range(6)]
            await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(answer, list | asyncio.CancelledError) for answer in answers)
        await leg.infer(CALL, 5)


async def test_large_tensors_go_out_whole() -> None:
    async def check(peer: Peer) -> None:
        while True:
            body = await peer.request()
            await peer.answer(answer(body[-20_000_000:]))

    async with serving(check) as leg:
        (output,) = await leg.infer(LARGE, 20)
        assert bytes(output.data) == bytes(20_000_000)


async def test_nothing_is_sent_after_close() -> None:
    async with serving(obey) as leg:
        await leg.infer(CALL, 5)
        await leg.close()
        error = await fails(leg)
        assert (error.fault, error.sent) == (Fault.CONNECTION, False)
