"""Feeds this replica's routers from what the leader published."""

from __future__ import annotations

import asyncio
import logging

from bridge.errors import BridgeError
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.control import RoutesView
from bridge.serving.routes import Routes
from bridge.serving.routes_json import loads

logger = logging.getLogger(__name__)


class RoutesReader:
    """Reads the published snapshot when it is newer than the one in `view`."""

    def __init__(self, registry: Registry, thread: RegistryThread, view: RoutesView) -> None:
        self._registry = registry
        self._thread = thread
        self._view = view
        self._pending = asyncio.Event()

    def look(self, epoch: int) -> None:
        """A snapshot with this epoch was published."""
        if epoch > self._view.routes.epoch:
            self._pending.set()

    async def run(self) -> None:
        """Read what is published until cancelled."""
        while True:
            await self._pending.wait()
            self._pending.clear()
            try:
                await self.refresh()
            except BridgeError as error:
                logger.debug("the published routes cannot be read: %s", error.message)

    async def refresh(self) -> None:
        """Use the newest snapshot from now on. Raises Unavailable."""
        routes = await self._thread.call(self._read, self._view.routes.epoch)
        if routes is not None:
            self._view.publish(routes)

    def _read(self, after: int) -> Routes | None:
        document = self._registry.read_routes(after)
        return None if document is None else loads(document.encode())
