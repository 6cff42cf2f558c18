"""Chooses who decides for a server."""

from __future__ import annotations

from bridge.deciding import Alone, Deciding
from bridge.replicated import Replicated
from bridge.shared_child import SharedChild
from bridge.stage import Stage


async def decider(stage: Stage) -> Deciding:
    """Alone on SQLite; on PostgreSQL there may be other bridges. Raises BridgeError."""
    if not stage.access.registry.shared:
        return Alone(stage)
    if stage.triton is None:
        return Replicated(stage)
    return await SharedChild.open(stage)
