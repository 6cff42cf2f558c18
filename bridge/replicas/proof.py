"""How replicas prove to each other that they share a database: a MAC with a secret that lies there."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from bridge.errors import BridgeError, Code

TOLERANCE = 60.0
"""Seconds by which the clocks of two replicas may differ."""


class Proof:
    """Signs messages and checks signatures. Each signature is good once."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        self._key = bytes.fromhex(secret)
        self._clock = clock
        self._seen: dict[str, float] = {}

    def sign(self, method: str, message: bytes) -> str:
        """The signature of a call."""
        head = f"{self._clock():.3f}.{secrets.token_hex(8)}"
        return f"{head}.{self._digest(head, method, message)}"

    def check(self, signature: str, method: str, message: bytes) -> None:
        """Raises BridgeError UNAUTHENTICATED unless `signature` was made for this call, lately, by one who knows."""
        head, _, digest = signature.rpartition(".")
        if not hmac.compare_digest(digest, self._digest(head, method, message)):
            raise _refused("the call does not come from a bridge on this database")
        now = self._clock()
        at = float(head.rpartition(".")[0])
        if abs(now - at) > TOLERANCE:
            raise _refused(f"the clocks of two replicas differ by {abs(now - at):.0f} s; {TOLERANCE:.0f} s are allowed")
        self._seen = (
            {known: end for known, end in self._seen.items() if end > now} if len(self._seen) > 1000 else self._seen
        )
        if head in self._seen:
            raise _refused("the call was made before")
        self._seen[head] = at + 2 * TOLERANCE

    def _digest(self, head: str, method: str, message: bytes) -> str:
        content = b"\n".join((head.encode(), method.encode(), message))
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()


def _refused(sentence: str) -> BridgeError:
    return BridgeError(sentence, Code.UNAUTHENTICATED)
