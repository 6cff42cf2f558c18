"""The link between request path and control plane over a Unix socket, for processes that come and go by themselves."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path

from bridge.serving.control import Control, RoutesView
from bridge.serving.lines import LINE_LIMIT, Lines
from bridge.serving.link import LinkHub, RouterLink

logger = logging.getLogger(__name__)

FIRST_RECONNECT = 0.1
LAST_RECONNECT = 1.0


class LinkServer(LinkHub):
    """A hub that listens on a Unix socket."""

    def __init__(self, path: Path, control: Control) -> None:
        super().__init__(control)
        self._path = path
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. A socket file that an earlier process left is replaced; only this user may connect."""
        self._path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._path))
            os.chmod(self._path, 0o600)
            self._server = await asyncio.start_unix_server(self._serve, sock=listener.dup(), limit=LINE_LIMIT)

    async def close(self) -> None:
        """Hang up; routers go on with their last snapshot and try to connect again."""
        if self._server is not None:
            self._server.close()
        for router in self.routers:
            router.hang_up()
        if self._server is not None:
            await self._server.wait_closed()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.serve(Lines(reader, writer))


class LinkClient(RouterLink):
    """A router's end that connects to a Unix socket, again and again while the control plane is away."""

    def __init__(self, path: Path, view: RoutesView) -> None:
        super().__init__(view)
        self._path = path
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        delay = FIRST_RECONNECT
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._path), limit=LINE_LIMIT)
            except OSError as error:
                logger.debug("The control plane at %s cannot be reached: %s", self._path, error)
                await asyncio.sleep(delay)
                delay = min(2 * delay, LAST_RECONNECT)
                continue
            delay = FIRST_RECONNECT
            await self.talk(Lines(reader, writer))


def connect(path: Path, view: RoutesView) -> LinkClient:
    """Feed `view` from the control plane that listens, or will listen, at `path`. Needs a running event loop."""
    client = LinkClient(path, view)
    client.start()
    return client
