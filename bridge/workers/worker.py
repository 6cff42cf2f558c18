"""A worker process: `python -m bridge.workers.worker FD`, started by the control process and never by hand.

FD is its end of the socket pair by which it is fed. It ends with its parent, on SIGTERM after its requests in flight,
and when the control process hangs up.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvloop

from bridge.access import plain
from bridge.access.denial import Denial
from bridge.client_parts import ClientParts, Management
from bridge.errors import BridgeError
from bridge.memory import keep_large_buffers_apart
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.parts import Parts
from bridge.request_parts import Meters, request_path
from bridge.serving.control import RoutesView
from bridge.serving.lines import LINE_LIMIT, Lines
from bridge.serving.link import RouterLink
from bridge.telemetry import logs
from bridge.telemetry.metrics import Metrics
from bridge.tfserving.metrics import ServingMetrics
from bridge.tfserving.rpc import Caller
from bridge.workers import handshake
from bridge.workers.calls import CallClient, Rpcs
from bridge.workers.handshake import HELLO, PAGE, WorkerStart
from bridge.workers.leases import LeaseClient
from bridge.workers.tallies import TallyClient


class Worker:
    """Request path and ports of clients of one process. `stop` ends it."""

    def __init__(self, start: WorkerStart, lines: Lines, stop: asyncio.Event) -> None:
        self._start = start
        self._lines = lines
        self._stop = stop
        self._parts = Parts(lambda name: stop.set())
        self._view = RoutesView(start.name)
        self._meters = _meters(start)
        self._calls = CallClient(lines)
        self._tallies = TallyClient(self._meters, lines)
        words = {"answer": self._calls.answered, "collect": self._tallies.collect}
        self._link = RouterLink(self._view, {**words, **LeaseClient(self._view, lines).words})

    async def run(self) -> None:
        """Serve until told to stop, then let requests in flight finish."""
        talk = asyncio.create_task(self._talk())
        try:
            await self._open()
            await self._stop.wait()
        finally:
            await self._parts.close()
            self._tallies.send()
            await self._lines.close()
            await talk

    async def _talk(self) -> None:
        await self._link.talk(self._lines)
        self._calls.hung_up()
        self._stop.set()

    async def _open(self) -> None:
        """Open the ports once there is something to route by, and tell how that went."""
        inputs, access = self._start.inputs, self._start.access
        path = request_path(inputs, self._view, self._link, self._meters, self._parts)
        if access.file is not None:
            self._parts.spawn(access.file.watch(), "access token file")
        self._parts.spawn(self._tallies.run(), "tallies")
        management = Management(self._rpcs(), self._page())
        gates = access.gates(self._denied)
        clients = ClientParts(inputs, self._parts, path, self._meters, management, gates, reuse_port=True)
        if self._start.routed and not await self._before_stop(self._view.wait_settled()):
            return
        try:
            ports = await clients.open(rest_optional=False)
        except BridgeError as error:
            self._lines.send("refused", json.dumps([int(error.code), error.message]).encode())
            self._stop.set()
        else:
            self._lines.send("ready", json.dumps(ports).encode())

    def _rpcs(self) -> Rpcs:
        return {
            service: {method: self._calls.rpc(service, method) for method in methods}
            for service, methods in self._start.rpcs.items()
        }

    def _page(self) -> Callable[[], Awaitable[bytes]]:
        page = self._calls.rpc(*PAGE)

        async def read() -> bytes:
            return bytes(await page(b"", Caller()))

        return read

    def _denied(self, denial: Denial) -> None:
        self._lines.send("denied", json.dumps(plain.plain_denial(denial)).encode())

    async def _before_stop(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work` to its end, or until told to stop; whether it came to its end."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        for one in (task, stop):
            one.cancel()
        return not self._stop.is_set()


async def serve(end: socket.socket) -> None:
    """A worker's whole life, told by `end`."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _signalled, stop)
    keep_large_buffers_apart()
    reader, writer = await asyncio.open_unix_connection(sock=end, limit=LINE_LIMIT)
    start = await handshake.read(reader)
    logs.configure(start.inputs.settings.log_level)
    writer.write(HELLO)
    await Worker(start, Lines(reader, writer), stop).run()


def _signalled(stop: asyncio.Event) -> None:
    if stop.is_set():
        os.kill(os.getpid(), signal.SIGKILL)
    stop.set()


def _meters(start: WorkerStart) -> Meters:
    return Meters(Metrics(), ServingMetrics(), MeshMetrics(per_model=start.inputs.mesh_metrics.per_model))


def main() -> None:
    """The entry point."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
