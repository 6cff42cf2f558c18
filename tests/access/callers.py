"""Identities of the tests, a clock that stands, and a list of what was denied."""

from __future__ import annotations

import json
from collections.abc import Collection

from bridge.access.denial import Denial
from bridge.access.entries import parse
from bridge.access.gate import Gate
from bridge.access.identities import Identities
from bridge.access.identity import Credentials, Scope

SUBJECT = "CN=trainer,O=Example"
START = 1_700_000_040_000_000
"""The first microsecond of a minute."""

FILE = {
    "identities": [
        {"name": "app", "token": "app-token", "scopes": ["inference"]},
        {"name": "ops", "token": "ops-token", "scopes": ["read", "manage"]},
        {"name": "old", "token": "old-token", "scopes": ["inference"], "expires": "2023-11-14T22:14:00Z"},
        {"name": "soon", "token": "soon-token", "scopes": ["inference"], "expires": "2023-11-14T22:14:01Z"},
        {"subject": SUBJECT, "scopes": ["manage"]},
        {"subject": "CN=old", "scopes": ["manage"], "expires": "2023-01-01T00:00:00Z"},
    ]
}


class StandingClock:
    """Shows the time that it is set to, microseconds UTC."""

    def __init__(self, now: int = START) -> None:
        self.time = now

    def now(self) -> int:
        return self.time

    def tick(self, seconds: float) -> None:
        self.time += round(seconds * 1_000_000)


class Watched:
    """A gate over `FILE`, and what it denied."""

    def __init__(self, required: Collection[Scope] = tuple(Scope), port: str = "grpc") -> None:
        self.clock = StandingClock()
        self.identities = Identities(self.clock, parse(json.dumps(FILE).encode()))
        self.denied: list[Denial] = []
        self.gate = Gate(port, "RPC", self.identities, required, self.denied.append)


def bearer(token: str, subject: str = "", peer: str = "ipv4:10.0.0.1:4242") -> Credentials:
    return Credentials(f"Bearer {token}", subject, peer)
