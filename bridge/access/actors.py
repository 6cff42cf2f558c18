"""From who calls to the actor of a change in the history: one form for every port."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.access.denial import REASON, REQUEST_ID
from bridge.access.identity import Identity
from bridge.registry import canonical
from bridge.registry.records import Actor


def actor(identity: Identity, source: str, metadata: Mapping[str, str]) -> Actor:
    """Who changes something by way of `source`; `metadata`, by lower-case name, gives reason and request id.

    What clients wrote is cut at 1 KiB.
    """
    reason, request_id = (canonical.cut(metadata.get(name, "")) for name in (REASON, REQUEST_ID))
    return Actor(canonical.cut(identity.name), source, reason, request_id)
