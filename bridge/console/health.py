"""Whether this server is ready to serve, with reasons. It never follows Triton's own readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from bridge.errors import BridgeError
from bridge.lifecycle.control_plane import ControlPlane
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

ANSWER_SECONDS = 2.0
"""How long the registry may take; a probe that waits longer is of no use to who asks."""


class Readiness(Protocol):
    """What /readyz asks."""

    async def reasons(self) -> list[str]:
        """Why the server is not ready, a sentence each; empty when it is."""


class Health:
    """Ready means: every configured model serves or was decided, some instance is up, and the registry answers."""

    def __init__(self, plane: ControlPlane, registry: Registry, thread: RegistryThread) -> None:
        self._plane = plane
        self._registry = registry
        self._thread = thread

    async def reasons(self) -> list[str]:
        return [*self._plane.unsettled(), *self._instances(), *await self._storage()]

    def _instances(self) -> Iterable[str]:
        controllers = self._plane.fleet.controllers.values()
        if any(controller.up for controller in controllers):
            return ()
        return [f"Triton instance {item.name} is down: {item.reason}" for item in controllers]

    async def _storage(self) -> Iterable[str]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._thread.call(self._registry.current_config)
        except TimeoutError:
            return [f"the registry did not answer within {ANSWER_SECONDS:.0f} s"]
        except BridgeError as error:
            return [f"the registry does not answer: {error.message}"]
        return ()
