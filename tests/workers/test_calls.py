"""Calls that a worker leaves to the control process."""

from __future__ import annotations

import asyncio

import pytest

from bridge.access import plain
from bridge.access.denial import Denial
from bridge.access.identity import Identity, Kind, Scope
from bridge.errors import BridgeError, Code
from bridge.serving.link import LinkHub, Router
from bridge.tfserving.rpc import FAULT, Caller
from bridge.workers.calls import CallClient, CallServer
from tests.serving.waiting import until
from tests.workers.linked import NoControl, served

CALLER = Caller(
    timeout=2.5,
    peer="ipv4:10.0.0.1:4242",
    metadata={"x-audit-reason": "because"},
    entries=(("x-audit-reason", "because"), ("data-bin", b"\x00\xff")),
    certificate=b"-----BEGIN CERTIFICATE-----\n",
    identity=Identity("ops", Kind.TOKEN, frozenset({Scope.MANAGE, Scope.READ})),
)


class Control:
    """A control process: what it was asked, and how it answers next."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Caller]] = []
        self.error: Exception | None = None
        self.hold: asyncio.Event | None = None
        self.cancelled = 0
        self.settled = 0
        self.gone: list[Router] = []
        self.calls = CallServer({"S": {"M": self._answer}}, self._settle)
        self.hub = LinkHub(NoControl(), words=self.calls.words, roll=self)

    def joined(self, router: Router) -> None: ...

    def left(self, router: Router) -> None:
        self.calls.forget(router)

    async def _answer(self, request: bytes, caller: Caller) -> bytes:
        self.asked.append((request, caller))
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return request[::-1]

    async def _settle(self) -> None:
        self.settled += 1


@pytest.fixture
def control() -> Control:
    return Control()


async def test_requests_callers_and_answers_pass_unchanged(control: Control) -> None:
    async with served(control.hub) as (lines, listen):
        client = CallClient(lines)
        listen({"answer": client.answered})
        rpc = client.rpc("S", "M")
        requests = [b"", b"\x00\n\xff", b"x" * 100_000]
        assert await asyncio.gather(*(rpc(request, CALLER) for request in requests)) == [one[::-1] for one in requests]
    assert [request for request, _ in control.asked] == requests
    for _, caller in control.asked:
        assert tuple(caller.entries) == CALLER.entries
        assert caller == CALLER._replace(entries=caller.entries)
    assert control.settled == 3


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (BridgeError("Nothing \udc80 'ü' here.\n", Code.NOT_FOUND), Code.NOT_FOUND, "Nothing \udc80 'ü' here.\n"),
        (BridgeError("x" * 5000, Code.ABORTED), Code.ABORTED, "x" * 5000),
        (RuntimeError("a fault"), Code.INTERNAL, FAULT),
    ],
)
async def test_errors_pass_with_code_and_text(control: Control, error: Exception, code: Code, text: str) -> None:
    control.error = error
    async with served(control.hub) as (lines, listen):
        client = CallClient(lines)
        listen({"answer": client.answered})
        with pytest.raises(BridgeError) as caught:
            await client.rpc("S", "M")(b"", Caller())
    assert (caught.value.code, caught.value.message) == (code, text)
    assert control.settled == 1


async def test_a_client_that_goes_away_cancels_its_call(control: Control) -> None:
    control.hold = asyncio.Event()
    async with served(control.hub) as (lines, listen):
        client = CallClient(lines)
        listen({"answer": client.answered})
        call = asyncio.ensure_future(client.rpc("S", "M")(b"", Caller()))
        await until(lambda: len(control.asked) == 1)
        call.cancel()
        await until(lambda: control.cancelled == 1)
        control.hold.set()
        assert await client.rpc("S", "M")(b"ab", Caller()) == b"ba"


async def test_calls_end_with_their_worker_and_with_their_parent(control: Control) -> None:
    control.hold = asyncio.Event()
    async with served(control.hub) as (lines, listen):
        client = CallClient(lines)
        listen({"answer": client.answered})
        call = asyncio.ensure_future(client.rpc("S", "M")(b"", Caller()))
        await until(lambda: len(control.asked) == 1)
        client.hung_up()
        with pytest.raises(BridgeError, match="The control process ended before it answered"):
            await call
    await until(lambda: control.cancelled == 1)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_denial_passes_unchanged(kind: Kind) -> None:
    identity = Identity("who", kind, frozenset({Scope.READ}))
    denial = Denial("grpc", "RPC", "S/M", Scope.MANAGE, Code.PERMISSION_DENIED, "No.", identity, "peer", {"a": "b"})
    assert plain.denial_of_plain(plain.plain_denial(denial)) == denial
