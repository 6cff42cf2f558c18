"""Request path and control plane in two processes: snapshots one way, `Control` calls the other, over a Unix socket.

Each message is one line: a word, a blank, one JSON document. The control plane sends `routes` (a whole snapshot) and
`lost` ([triton_name, instance]); a router sends `drained` ([router, epoch]), at least every HEARTBEAT seconds so that
its lease goes on, `failure` ([triton_name, instance, reason]), `demand` (a registered model's id) and `used` (how
often each registered model was used since the last such message).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from pathlib import Path

import orjson

from bridge.serving.control import Control, RoutesView
from bridge.serving.routes import EMPTY, Routes
from bridge.serving.routes_json import dumps, loads

logger = logging.getLogger(__name__)

HEARTBEAT = 2.0
"""Seconds between two `drained` messages of an idle router."""
FIRST_RECONNECT = 0.1
LAST_RECONNECT = 1.0
LINE_LIMIT = 1 << 30
"""Bytes of the longest line; a snapshot holds the signatures of every version."""


def _line(word: str, document: bytes) -> bytes:
    return b"%s %s\n" % (word.encode(), document)


class LinkServer:
    """The control plane's end; `control` hears what routers say. One that falls behind gets the newest snapshot."""

    def __init__(self, path: Path, control: Control) -> None:
        self._path = path
        self._control = control
        self._routers: set[_Router] = set()
        self._snapshot = b""
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
        for router in list(self._routers):
            router.hang_up()
        if self._server is not None:
            await self._server.wait_closed()
        self._path.unlink(missing_ok=True)

    def publish(self, routes: Routes) -> None:
        """Send `routes` to every router, also to those that connect later."""
        self._snapshot = _line("routes", dumps(routes))
        for router in self._routers:
            router.send_snapshot(self._snapshot)

    def lose(self, triton_name: str, instance: str) -> None:
        """Tell every router that the process of that copy died (`RoutesView.lose`)."""
        line = _line("lost", orjson.dumps([triton_name, instance]))
        for router in self._routers:
            router.send(line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        router = _Router(writer)
        self._routers.add(router)
        sending = asyncio.create_task(router.run())
        if self._snapshot:
            router.send_snapshot(self._snapshot)
        try:
            while line := await reader.readline():
                self._receive(line)
        except (OSError, ValueError) as error:
            logger.warning("A router's link broke: %s", error)
        finally:
            self._routers.discard(router)
            sending.cancel()
            writer.close()

    def _receive(self, line: bytes) -> None:
        word, _, document = line.partition(b" ")
        if word == b"drained":
            self._control.drained(*orjson.loads(document))
        elif word == b"failure":
            self._control.report_failure(*orjson.loads(document))
        elif word == b"demand":
            self._control.load_on_demand(orjson.loads(document))
        elif word == b"used":
            for model_id, count in orjson.loads(document).items():
                self._control.used(model_id, count)


class _Router:
    """The sending half of one router's connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._snapshot = b""
        self._lines: list[bytes] = []
        self._pending = asyncio.Event()

    def send_snapshot(self, line: bytes) -> None:
        self._snapshot = line
        self._pending.set()

    def send(self, line: bytes) -> None:
        self._lines.append(line)
        self._pending.set()

    def hang_up(self) -> None:
        self._writer.close()

    async def run(self) -> None:
        try:
            while True:
                await self._pending.wait()
                self._pending.clear()
                lines, self._lines, self._snapshot = [*self._lines, self._snapshot], [], b""
                self._writer.writelines(lines)
                await self._writer.drain()
        except OSError as error:
            logger.debug("A router's link broke: %s", error)


class LinkClient:
    """The router's end: feeds a `RoutesView` and is its `Control`.

    While the link is down the view keeps its last snapshot, failures are kept (the newest per copy) as are demands and
    uses, and the link is tried again. Uses go along with other messages, HEARTBEAT seconds late at most.
    """

    def __init__(self, path: Path, view: RoutesView) -> None:
        self._path = path
        self._view = view
        self._failures: dict[tuple[str, str], str] = {}
        self._demands: dict[str, None] = {}
        self._uses: Counter[str] = Counter()
        self._pending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._view.connect(self.drained)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        self._failures[triton_name, instance] = reason
        self._pending.set()

    def drained(self, router: str, epoch: int) -> None:
        """The epoch is asked of the view when the message goes out, so that only the newest is sent."""
        self._pending.set()

    def load_on_demand(self, model_id: str) -> None:
        self._demands[model_id] = None
        self._pending.set()

    def used(self, model_id: str, count: int) -> None:
        self._uses[model_id] += count

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
            await self._talk(reader, writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending = asyncio.create_task(self._send(writer))
        try:
            while line := await reader.readline():
                self._receive(line)
        except (OSError, ValueError) as error:
            logger.warning("The link to the control plane at %s broke: %s", self._path, error)
        finally:
            sending.cancel()
            writer.close()

    def _receive(self, line: bytes) -> None:
        word, _, document = line.partition(b" ")
        if word == b"routes":
            self._view.publish(loads(document))
        elif word == b"lost":
            self._view.lose(*orjson.loads(document))

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.writelines(self._messages())
                await writer.drain()
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await self._pending.wait()
                except TimeoutError:
                    pass
        except OSError as error:
            logger.debug("The link to the control plane at %s broke: %s", self._path, error)

    def _messages(self) -> list[bytes]:
        self._pending.clear()
        failures, self._failures = self._failures, {}
        demands, self._demands = self._demands, {}
        uses, self._uses = self._uses, Counter()
        lines = [_line("failure", orjson.dumps([*copy, reason])) for copy, reason in failures.items()]
        lines += [_line("demand", orjson.dumps(model_id)) for model_id in demands]
        if uses:
            lines.append(_line("used", orjson.dumps(uses)))
        if self._view.routes is not EMPTY:
            lines.append(_line("drained", orjson.dumps([self._view.router, self._view.drained_epoch()])))
        return lines


def connect(path: Path, view: RoutesView) -> LinkClient:
    """Feed `view` from the control plane that listens, or will listen, at `path`. Needs a running event loop."""
    client = LinkClient(path, view)
    client.start()
    return client
