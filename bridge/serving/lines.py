"""Messages of two processes over one stream: each is a line of a word, a blank and a JSON document."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

LINE_LIMIT = 1 << 30
"""Bytes of the longest line; a snapshot holds the signatures of every version."""

Receive = Callable[[str, bytes], None]
"""Told the word and the document of each message."""


class Lines:
    """One end of a connection. Messages that are sent wait for the other end to read; none is lost while it lives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: list[bytes] = []
        self._newest: dict[str, Callable[[], bytes]] = {}
        self._pending = asyncio.Event()

    def send(self, word: str, document: bytes) -> None:
        """Send a message; `document` has no line ends."""
        self._waiting.append(_line(word, document))
        self._pending.set()

    def send_newest(self, word: str, make: Callable[[], bytes]) -> None:
        """Send a message in place of one with the same word that waits still; it follows those that wait otherwise.

        `make` makes the document when it goes out.
        """
        self._newest[word] = make
        self._pending.set()

    def hang_up(self) -> None:
        self._writer.close()

    async def close(self) -> None:
        """Send what waits still, and hang up."""
        self._writer.writelines(self._take())
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def run(self, receive: Receive) -> None:
        """Hand on what the other end sends until one of both hangs up."""
        sending = asyncio.create_task(self._send())
        try:
            while line := await self._reader.readline():
                word, _, document = line.partition(b" ")
                receive(word.decode(), document)
        except (OSError, ValueError) as error:
            logger.warning("a link between two processes broke: %s", error)
        finally:
            sending.cancel()
            self._writer.close()

    def _take(self) -> list[bytes]:
        lines = [*self._waiting, *(_line(word, make()) for word, make in self._newest.items())]
        self._waiting, self._newest = [], {}
        return lines

    async def _send(self) -> None:
        try:
            while True:
                await self._pending.wait()
                self._pending.clear()
                self._writer.writelines(self._take())
                await self._writer.drain()
        except OSError as error:
            logger.debug("a link between two processes broke: %s", error)


def _line(word: str, document: bytes) -> bytes:
    return b"%s %s\n" % (word.encode(), document)
