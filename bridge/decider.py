"""Chooses who decides for a server."""

from __future__ import annotations

from bridge.deciding import Alone, Deciding
from bridge.stage import Stage


async def decider(stage: Stage) -> Deciding:
    """Alone on SQLite; on PostgreSQL there may be other bridges. Raises BridgeError."""
    if not stage.access.registry.shared:
        return Alone(stage)
    # Only here: these need the driver of PostgreSQL, which a plain install is without.
    from bridge.replicated import Replicated
    from bridge.shared_child import SharedChild

    return Replicated(stage) if stage.triton is None else await SharedChild.open(stage)
