"""Publishes the leader's snapshots to the other replicas."""

from __future__ import annotations

import asyncio
import logging

from bridge.errors import FailedPrecondition, Unavailable
from bridge.lifecycle.backoff import Backoff
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import Routes
from bridge.serving.routes_json import dumps

logger = logging.getLogger(__name__)


class RoutesWriter:
    """Writes the newest snapshot; those that came and went while one was written are left out.

    `registry` is fenced: a past leader publishes nothing.
    """

    def __init__(self, registry: Registry, thread: RegistryThread) -> None:
        self._registry = registry
        self._thread = thread
        self._newest: Routes | None = None
        self._pending = asyncio.Event()

    def publish(self, routes: Routes) -> None:
        self._newest = routes
        self._pending.set()

    async def run(self) -> None:
        """Write until cancelled, or until another leads."""
        backoff = Backoff(0.1, 1.0)
        while True:
            await self._pending.wait()
            self._pending.clear()
            routes = self._newest
            assert routes is not None
            try:
                await self._thread.call(self._write, routes)
                backoff.reset()
            except Unavailable as error:
                logger.debug("snapshot %d is not published: %s", routes.epoch, error.message)
                self._pending.set()
                await asyncio.sleep(backoff.pause())
            except FailedPrecondition as error:
                logger.debug("snapshot %d is not published: %s", routes.epoch, error.message)
                return

    def _write(self, routes: Routes) -> None:
        self._registry.write_routes(routes.epoch, dumps(routes).decode())
