"""Scopes against identities."""

from __future__ import annotations

import pytest

from bridge.access.denial import Denial
from bridge.access.identity import Credentials, Identity, Kind, Scope
from bridge.errors import BridgeError, Code
from tests.access.callers import SUBJECT, Watched, bearer

PEER = Credentials("", "", "ipv4:10.0.0.1:4242")
METHOD = "tensorflow.serving.ModelService/HandleReloadConfigRequest"


@pytest.mark.parametrize(
    ("credentials", "scopes"),
    [
        (bearer("app-token"), {Scope.INFERENCE}),
        (bearer("ops-token"), {Scope.READ, Scope.MANAGE}),
        (Credentials("", SUBJECT, "p"), {Scope.MANAGE}),
        (Credentials("", "CN=stranger", "p"), set()),
        (PEER, set()),
        (bearer("wrong"), set()),
    ],
)
def test_each_scope_is_asked_for_by_itself(credentials: Credentials, scopes: set[Scope]) -> None:
    watched = Watched()
    for scope in Scope:
        if scope in scopes:
            assert watched.gate.admit("m", scope, credentials, {}).scopes == scopes
            continue
        with pytest.raises(BridgeError) as caught:
            watched.gate.admit("m", scope, credentials, {})
        assert caught.value.code in (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED)
    assert len(watched.denied) == len(Scope) - len(scopes)


def test_what_a_denial_says() -> None:
    watched = Watched()
    with pytest.raises(BridgeError) as missing:
        watched.gate.admit(METHOD, Scope.MANAGE, bearer("app-token"), {"x-request-id": "7", "authorization": "secret"})
    lacking = f"'app' does not have the scope manage, which {METHOD} needs."
    assert (missing.value.code, missing.value.message) == (Code.PERMISSION_DENIED, lacking)
    with pytest.raises(BridgeError) as unknown:
        watched.gate.admit(METHOD, Scope.MANAGE, PEER, {})
    nobody = f"{METHOD} needs a bearer token or a client certificate with the scope manage."
    assert (unknown.value.code, unknown.value.message) == (Code.UNAUTHENTICATED, nobody)
    app = Identity("app", Kind.TOKEN, frozenset({Scope.INFERENCE}))
    peer = Identity("ipv4:10.0.0.1:4242", Kind.PEER)
    code = Code.PERMISSION_DENIED
    assert watched.denied == [
        Denial("grpc", "RPC", METHOD, Scope.MANAGE, code, lacking, app, PEER.peer, {"x-request-id": "7"}),
        Denial("grpc", "RPC", METHOD, Scope.MANAGE, Code.UNAUTHENTICATED, nobody, peer, PEER.peer, {}),
    ]
    assert watched.denied[1].host == "10.0.0.1"


def test_a_port_asks_only_for_what_it_is_told_to() -> None:
    watched = Watched({Scope.MANAGE})
    for credentials in (PEER, bearer("wrong"), bearer("old-token")):
        assert watched.gate.admit("m", Scope.INFERENCE, credentials, {}).kind is Kind.PEER
    with pytest.raises(BridgeError):
        watched.gate.admit("m", Scope.MANAGE, PEER, {})


def test_an_open_gate_still_learns_who_calls() -> None:
    watched = Watched(())
    assert not watched.gate.closed
    assert watched.gate.admit("m", Scope.MANAGE, bearer("app-token"), {}).name == "app"
    assert watched.gate.admit("m", None, PEER, {}) == PEER.unproven()
    assert not watched.denied
