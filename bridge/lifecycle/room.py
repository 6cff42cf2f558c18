"""Whether an instance has room for what is pinned to it."""

from __future__ import annotations

from typing import Protocol

from bridge.lifecycle.servable import Placeable


class Room(Protocol):
    """The memory of the instances as pinned servables see it."""

    async def take(self, instance: str, servable: Placeable) -> None:
        """Make room for a servable before it is loaded. Raises InsufficientResources."""

    def measured(self, instance: str, triton_name: str, size: int) -> None:
        """A servable that was loaded takes `size` bytes."""

    def give_back(self, instance: str, triton_name: str) -> None:
        """A copy was unloaded, or could not be loaded; it may be one that no room was taken for."""
