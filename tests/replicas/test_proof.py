from __future__ import annotations

import pytest

from bridge.errors import BridgeError, Code
from bridge.replicas.proof import Proof
from tests.replicas.conftest import ManualTime

SECRET, OTHER = "ab" * 32, "cd" * 32


def test_a_call_is_taken_once(time: ManualTime) -> None:
    signature = Proof(SECRET, time).sign("Rpc", b"message")
    there = Proof(SECRET, time)
    there.check(signature, "Rpc", b"message")
    with pytest.raises(BridgeError, match="made before"):
        there.check(signature, "Rpc", b"message")


@pytest.mark.parametrize(
    ("secret", "method", "message"),
    [(OTHER, "Rpc", b"message"), (SECRET, "Admin", b"message"), (SECRET, "Rpc", b"another")],
    ids=["secret", "method", "message"],
)
def test_a_signature_is_for_one_call(time: ManualTime, secret: str, method: str, message: bytes) -> None:
    signature = Proof(secret, time).sign(method, message)
    with pytest.raises(BridgeError, match="does not come from a bridge on this database") as caught:
        Proof(SECRET, time).check(signature, "Rpc", b"message")
    assert caught.value.code is Code.UNAUTHENTICATED


@pytest.mark.parametrize("signature", ["", "x", "..", "1.2.3"])
def test_what_is_no_signature_is_refused(signature: str) -> None:
    with pytest.raises(BridgeError, match="does not come from"):
        Proof(SECRET).check(signature, "Rpc", b"message")


def test_an_old_signature_is_refused(time: ManualTime) -> None:
    signature = Proof(SECRET, time).sign("Rpc", b"message")
    time.now += 61
    with pytest.raises(BridgeError, match="the clocks of two replicas differ by 61 s"):
        Proof(SECRET, time).check(signature, "Rpc", b"message")
