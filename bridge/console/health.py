"""Whether this server lives and whether it is ready, with reasons. It never follows Triton's own readiness."""

from __future__ import annotations

from bridge.errors import BridgeError
from bridge.lifecycle.control_plane import ControlPlane
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread


class Health:
    """Ready means: every configured model serves or was decided, some instance is up, and the registry answers."""

    def __init__(self, plane: ControlPlane, registry: Registry, thread: RegistryThread) -> None:
        self._plane = plane
        self._registry = registry
        self._thread = thread

    async def reasons(self) -> list[str]:
        """Why the server is not ready, a sentence each; empty when it is."""
        reasons = list(self._plane.unsettled())
        controllers = self._plane.fleet.controllers.values()
        if not any(controller.up for controller in controllers):
            reasons += [f"Triton instance {item.name} is down: {item.reason}" for item in controllers]
        try:
            await self._thread.call(self._registry.current_config)
        except BridgeError as error:
            reasons.append(f"the registry does not answer: {error.message}")
        return reasons
