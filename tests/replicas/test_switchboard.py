"""Management calls over a real connection between two replicas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from unittest.mock import ANY

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from bridge.access.identity import Identity, Kind
from bridge.errors import BridgeError, Code, FailedPrecondition, Unavailable
from bridge.replicas.leader_line import PING, LeaderLine
from bridge.replicas.offices import Office
from bridge.replicas.proof import Proof
from bridge.replicas.switchboard import NOBODY, Switchboard
from bridge.tfserving.rpc import Caller, Rpc
from bridge.transport.grpcio_server import GrpcioServer

SECRET = "ab" * 32
CALLER = Caller(
    5.0,
    "ipv4:10.0.0.1:4242",
    {"x-audit-reason": "because"},
    (("x-audit-reason", "because"), ("trace-bin", b"\0\xff")),
    b"PEM",
    Identity("alice", Kind.TOKEN),
)


class Pair:
    """`there` may lead; calls are made `here`."""

    def __init__(self) -> None:
        self.address = ""
        self.begins = False
        self.caught_up: list[int] = []
        self.heard: list[Caller] = []
        self.line = LeaderLine(Proof(SECRET))
        self.here = self._board()
        self.there = self._board()

    def rpc(self, method: str = "Change") -> Rpc:
        return self.here.rpcs({"Service": [method]})["Service"][method]

    def lead(self, board: Switchboard, rpc: Rpc) -> Office:
        office = Office({"Service": {"Change": rpc}}, Starlette(routes=[Route("/change", _told, methods=["PUT"])]))
        board.open(office)
        return office

    def _board(self) -> Switchboard:
        async def leader() -> str:
            return self.address

        async def catch_up(epoch: int) -> None:
            self.caught_up.append(epoch)

        return Switchboard(self.line, Proof(SECRET), leader, catch_up, lambda: 7, lambda: self.begins)

    async def answer(self, request: bytes, caller: Caller) -> bytes:
        self.heard.append(caller)
        return request + b"!"


async def _told(request: Request) -> JSONResponse:
    client = request.client
    told = {
        "peer": client.host if client else "",
        "reason": request.headers["x-audit-reason"],
        "query": request.url.query,
    }
    return JSONResponse({**told, "body": (await request.body()).decode()}, 201, {"x-request-id": "r-1"})


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    server = GrpcioServer(pair.there.services())
    pair.address = f"127.0.0.1:{await server.start('127.0.0.1:0')}"
    yield pair
    await pair.line.close()
    await server.stop(0)


async def test_a_call_reaches_the_leader_with_its_caller(pair: Pair) -> None:
    pair.lead(pair.there, pair.answer)
    assert await pair.rpc()(b"request", CALLER) == b"request!"
    [heard] = pair.heard
    assert (heard.peer, heard.metadata, heard.certificate) == (CALLER.peer, CALLER.metadata, CALLER.certificate)
    assert (tuple(heard.entries), heard.identity) == (CALLER.entries, CALLER.identity)
    assert heard.timeout is not None
    assert 0 < heard.timeout <= 5
    assert pair.caught_up == [7]


async def test_who_leads_answers_itself(pair: Pair) -> None:
    pair.lead(pair.here, pair.answer)
    assert await pair.rpc()(b"request", CALLER) == b"request!"
    assert pair.heard == [CALLER]
    assert pair.caught_up == []


async def test_calls_wait_for_a_leader_that_has_just_begun(pair: Pair) -> None:
    pair.begins = True
    call = asyncio.ensure_future(pair.rpc()(b"request", CALLER))
    await asyncio.sleep(0)
    assert not call.done()
    pair.lead(pair.here, pair.answer)
    assert await call == b"request!"


async def test_errors_come_back_as_they_were(pair: Pair) -> None:
    sentence = "a label ☺ " * 300

    async def refuse(request: bytes, caller: Caller) -> bytes:
        raise FailedPrecondition(sentence)

    pair.lead(pair.there, refuse)
    with pytest.raises(BridgeError) as caught:
        await pair.rpc()(b"", CALLER)
    assert (caught.value.code, caught.value.message) == (Code.FAILED_PRECONDITION, sentence)


async def test_without_a_leader_there_is_one_sentence(pair: Pair) -> None:
    with pytest.raises(BridgeError, match=NOBODY):
        await pair.rpc()(b"", CALLER)
    pair.address = ""
    with pytest.raises(Unavailable, match=NOBODY):
        await pair.rpc()(b"", CALLER)


async def test_a_leader_that_is_gone_is_unavailable(pair: Pair) -> None:
    pair.address = "127.0.0.1:1"
    with pytest.raises(Unavailable, match=r"The leader at 127\.0\.0\.1:1 cannot be reached"):
        await pair.rpc()(b"", CALLER)


async def test_calls_in_work_end_with_the_term(pair: Pair) -> None:
    begun = asyncio.Event()

    async def dawdle(request: bytes, caller: Caller) -> bytes:
        begun.set()
        await asyncio.Event().wait()
        return b""

    office = pair.lead(pair.there, dawdle)
    call = asyncio.ensure_future(pair.rpc()(b"", CALLER))
    await begun.wait()
    office.close()
    with pytest.raises(BridgeError, match="leads no more; whether the call was carried out is unknown"):
        await call


async def test_a_replica_says_that_it_is_there(pair: Pair) -> None:
    assert await pair.line.call(pair.address, PING, b"", 5) == b""


async def test_a_stranger_is_refused(pair: Pair) -> None:
    pair.lead(pair.there, pair.answer)
    stranger = LeaderLine(Proof("cd" * 32))
    with pytest.raises(BridgeError, match="refuses this replica: the call does not come from a bridge"):
        await stranger.call(pair.address, "Rpc", b"", 5)
    await stranger.close()


async def test_a_request_to_the_admin_port_reaches_the_leaders(pair: Pair) -> None:
    pair.lead(pair.there, pair.answer)
    app = pair.here.admin(Starlette(), local_only=False)
    status, headers, body = await _put(app, "example.org")
    assert (status, headers[b"x-request-id"]) == (201, b"r-1")
    assert json.loads(body) == {
        "peer": "10.0.0.1",
        "reason": "weil ü".encode().decode("latin-1"),
        "query": "model=m",
        "body": "{}",
    }


async def test_only_changes_leave_this_replica(pair: Pair) -> None:
    async def read(request: Request) -> JSONResponse:
        return JSONResponse("own")

    app = pair.here.admin(Starlette(routes=[Route("/change", read)]), local_only=True)
    assert await _put(app, "localhost", method="GET") == (200, ANY, b'"own"')
    assert (await _put(app, "localhost"))[0] == 503
    assert (await _put(app, "example.org"))[0] == 403


async def _put(app: ASGIApp, host: str, method: str = "PUT") -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of an answer."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": "/change",
        "query_string": b"model=m",
        "headers": [(b"host", host.encode()), (b"x-audit-reason", "weil ü".encode())],
        "client": ("10.0.0.1", 4242),
    }
    await app(scope, receive, send)
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]
