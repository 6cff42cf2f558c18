"""Tells the registry that this process lives, so that whoever comes after it knows when it ended."""

from __future__ import annotations

import asyncio
import logging

from bridge.errors import BridgeError
from bridge.registry.records import Actor
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 2.0


class Heartbeat:
    """One process's. `begin` comes before whatever it writes, `end` after that."""

    def __init__(self, registry: Registry, thread: RegistryThread, actor: Actor) -> None:
        self._registry = registry
        self._thread = thread
        self._actor = actor
        self._process = ""

    async def begin(self, name: str) -> None:
        """Tell that the process called `name` begins; no other living one has that name. Raises BridgeError."""
        self._process = await self._thread.call(self._registry.begin_process, name, self._actor)

    async def run(self) -> None:
        """Beat until cancelled; while the database is away nobody hears of it."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            try:
                await self._thread.call(self._registry.heartbeat, self._process)
            except BridgeError as error:
                logger.debug("no heartbeat: %s", error.message)

    def end(self) -> None:
        """On the registry's thread: the process ends."""
        self._registry.end_process(self._process, self._actor)
