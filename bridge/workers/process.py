"""One worker as a child process, with the stream that feeds it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Self

from bridge.serving.lines import LINE_LIMIT, Lines
from bridge.triton.child import Child
from bridge.workers import handshake
from bridge.workers.handshake import HELLO, WorkerStart

logger = logging.getLogger(__name__)

END_SECONDS = 5.0
"""How long a worker that hung up may take to end."""


class WorkerProcess:
    """A child that never outlives this process. It writes its log where this process does."""

    def __init__(self, child: Child, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer

    @classmethod
    async def spawn(cls) -> Self:
        """Has to be called on the main thread. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = (sys.executable, "-P", "-m", "bridge.workers.worker", str(theirs.fileno()))
            child = Child(command, environment=os.environ, cwd=Path.cwd(), descriptors=(theirs.fileno(),))
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_LIMIT)
        return cls(child, reader, writer)

    @property
    def pid(self) -> int:
        return self._child.pid

    async def start(self, start: WorkerStart) -> Lines | None:
        """Tell what to do; the link to the worker once that is at work, None if it ended before."""
        self._writer.write(handshake.written(start))
        try:
            said = await self._reader.readline()
        except OSError as error:
            logger.debug("%s broke off: %s", start.name, error)
            said = b""
        return Lines(self._reader, self._writer) if said == HELLO else None

    def terminate(self) -> None:
        """Ask it to end after its requests in flight."""
        self._child.terminate()

    def kill(self) -> None:
        self._child.kill()

    async def ended(self) -> int:
        """The exit code, negative for a signal, of a worker that hung up; one that does not end soon is killed."""
        self._writer.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                return await self._child.wait()
        except TimeoutError:
            self._child.kill()
        return await self._child.wait()
