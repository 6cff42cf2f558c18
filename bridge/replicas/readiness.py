"""Whether a replica that follows is ready."""

from __future__ import annotations

import asyncio

from bridge.console.health import ANSWER_SECONDS
from bridge.errors import BridgeError
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.control import RoutesView


class FollowerReadiness:
    """Ready means: it serves by some snapshot of a leader's, and the registry answers."""

    def __init__(self, view: RoutesView, registry: Registry, thread: RegistryThread) -> None:
        self._view = view
        self._registry = registry
        self._thread = thread

    async def reasons(self) -> list[str]:
        reasons = [] if self._view.routes.epoch else ["no leader has published routes yet"]
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._thread.call(self._registry.current_config)
        except TimeoutError:
            reasons.append(f"the registry did not answer within {ANSWER_SECONDS:.0f} s")
        except BridgeError as error:
            reasons.append(f"the registry does not answer: {error.message}")
        return reasons
