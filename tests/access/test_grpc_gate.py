"""A gate before RPCs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridge.access.grpc_gate import RpcGate
from bridge.access.identity import Identity, Scope
from bridge.errors import BridgeError, Code
from bridge.tfserving.rpc import Caller, Service
from tests.access.callers import Watched

PREDICTION, MODEL, V2 = (
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
    "inference.GRPCInferenceService",
)


class Served:
    """Services that answer what they were asked, behind a gate."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.identities: list[Identity | None] = []
        self.observed: list[tuple[str, Code]] = []
        self.own = {
            PREDICTION: Service({"Predict": self._echo}),
            MODEL: Service({"HandleReloadConfigRequest": self._echo}),
            V2: Service({"ServerLive": self._echo, "NewRpc": self._echo}, {"ModelStreamInfer": self._stream}),
        }
        gate = RpcGate(watched.gate, lambda name, code, seconds: self.observed.append((name, code)))
        self.services = gate.before(self.own)

    async def _echo(self, request: bytes, caller: Caller) -> bytes:
        self.identities.append(caller.identity)
        return request

    async def _stream(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request


def caller(token: str = "") -> Caller:
    return Caller(peer="ipv4:10.0.0.1:1", metadata={"authorization": f"Bearer {token}"} if token else {})


async def test_calls_pass_with_their_scope_only() -> None:
    served = Served(Watched())
    predict = served.services[PREDICTION].unary["Predict"]
    assert await predict(b"x", caller("app-token")) == b"x"
    for token, code in (("ops-token", Code.PERMISSION_DENIED), ("", Code.UNAUTHENTICATED)):
        with pytest.raises(BridgeError) as caught:
            await predict(b"x", caller(token))
        assert caught.value.code == code
    assert len(served.identities) == 1
    assert served.observed == [("Predict", Code.PERMISSION_DENIED), ("Predict", Code.UNAUTHENTICATED)]
    assert [denial.method for denial in served.watched.denied] == [f"{PREDICTION}/Predict"] * 2


async def test_changes_know_who_calls_where_nobody_has_to_log_in() -> None:
    served = Served(Watched(()))
    reload = served.services[MODEL].unary["HandleReloadConfigRequest"]
    for token in ("ops-token", "wrong", ""):
        await reload(b"", caller(token))
    assert [identity and identity.name for identity in served.identities] == ["ops", *["ipv4:10.0.0.1:1"] * 2]


def test_what_needs_nothing_is_left_as_it_is() -> None:
    closed, opened = Served(Watched()), Served(Watched({Scope.MANAGE}))
    assert closed.services[V2].unary["ServerLive"] == closed.own[V2].unary["ServerLive"]
    assert opened.services[PREDICTION].unary["Predict"] == opened.own[PREDICTION].unary["Predict"]
    assert opened.services[V2].streams["ModelStreamInfer"] == opened.own[V2].streams["ModelStreamInfer"]


async def test_an_rpc_that_no_table_lists_is_management() -> None:
    served = Served(Watched())
    with pytest.raises(BridgeError, match="scope manage"):
        await served.services[V2].unary["NewRpc"](b"", caller("app-token"))


async def test_a_stream_ends_with_its_token() -> None:
    watched = Watched()
    stream = Served(watched).services[V2].streams["ModelStreamInfer"]

    async def requests() -> AsyncIterator[bytes]:
        yield b"one"
        watched.clock.tick(1)
        yield b"two"

    answers = stream(requests(), caller("soon-token"))
    assert await anext(answers) == b"one"
    with pytest.raises(BridgeError, match="expired"):
        await anext(answers)
    assert len(watched.denied) == 1


async def test_a_stream_without_credentials_does_not_begin() -> None:
    watched = Watched()
    stream = Served(watched).services[V2].streams["ModelStreamInfer"]

    read = []

    async def requests() -> AsyncIterator[bytes]:
        read.append(b"one")
        yield b"one"

    with pytest.raises(BridgeError, match="needs a bearer token"):
        await anext(stream(requests(), caller()))
    assert (len(watched.denied), read) == (1, [])
