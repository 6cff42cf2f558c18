"""Hears the notices of the other bridges on one PostgreSQL, over a connection of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import psycopg

from bridge.registry import notices
from bridge.registry.database import POSTGRESQL_ARGUMENTS, parse_url

logger = logging.getLogger(__name__)

FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
"""Seconds between two tries to connect."""
SILENCE_SECONDS = 5.0
"""After so long without a notice the connection is asked whether it still stands."""

Hear = Callable[[str, Any], None]
"""Told word and content of each notice."""


class Listener:
    """`hear` is told of notices, `connected` each time that some may have been missed before."""

    def __init__(self, url: str, hear: Hear, connected: Callable[[], None]) -> None:
        self._url = parse_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._hear = hear
        self._connected = connected

    async def run(self) -> None:
        """Listen until cancelled; connect again when the connection breaks."""
        pause = FIRST_PAUSE
        while True:
            try:
                async with await self._connect() as connection:
                    pause = FIRST_PAUSE
                    await self._listen(connection)
            except (psycopg.Error, OSError, TimeoutError) as error:
                logger.debug("not listening to the other bridges: %s", error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        arguments: dict[str, Any] = dict(POSTGRESQL_ARGUMENTS)
        return await psycopg.AsyncConnection.connect(self._url, autocommit=True, **arguments)

    async def _listen(self, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(f"listen {notices.CHANNEL}".encode())
        self._connected()
        while True:
            async for notice in connection.notifies(timeout=SILENCE_SECONDS):
                self._take(notice.payload)
            async with asyncio.timeout(SILENCE_SECONDS):
                await connection.execute(b"select 1")

    def _take(self, payload: str) -> None:
        try:
            word, content = notices.parse(payload)
            self._hear(word, content)
        except (ValueError, TypeError) as error:
            logger.warning("a notice of another bridge cannot be understood: %s (%s)", payload[:200], error)
