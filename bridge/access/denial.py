"""One denied call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bridge.access import identity as identities
from bridge.access.identity import Identity, Scope
from bridge.errors import Code

REASON = "x-audit-reason"
REQUEST_ID = "x-request-id"
"""What of a call's metadata the history tells, by lower-case name."""


@dataclass(frozen=True, slots=True)
class Denial:
    """`source` is the way the call came as the history names it, `metadata` its reason and request id."""

    port: str
    source: str
    method: str
    scope: Scope
    code: Code
    message: str
    identity: Identity
    peer: str
    metadata: Mapping[str, str]

    @property
    def host(self) -> str:
        """The peer without its port."""
        return identities.host(self.peer)


Report = Callable[[Denial], None]
"""Is told of a denied call, and does not wait for anything."""
