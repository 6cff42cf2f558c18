"""The worker processes of a server: started together, fed by one hub, replaced when they end."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from bridge.access import plain
from bridge.access.denial import Report
from bridge.access_inputs import AccessInputs
from bridge.client_inputs import ClientInputs
from bridge.client_parts import Management
from bridge.errors import BridgeError, Code, Internal
from bridge.request_parts import Meters
from bridge.serving.control import Control, Routers, RoutesView
from bridge.serving.link import LinkHub, Router
from bridge.serving.routes import EMPTY
from bridge.tfserving.rpc import Caller
from bridge.workers.addresses import SharedSocket
from bridge.workers.calls import CallServer
from bridge.workers.handshake import PAGE, WorkerStart
from bridge.workers.leases import LeaseServer
from bridge.workers.process import WorkerProcess
from bridge.workers.tallies import TallyServer

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often silent workers are looked for."""
SHORT_LIFE = 10.0
"""Seconds; a worker that ends sooner has its successor wait, longer each time."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Workers:
    """Workers 1 to `settings.workers`. `view` and `control` are what the request path in this process has, too."""

    def __init__(
        self,
        inputs: ClientInputs,
        access: AccessInputs,
        management: Management,
        meters: Meters,
        view: RoutesView,
        control: Control,
        routers: Routers,
        denied: Report,
    ) -> None:
        self._inputs = inputs
        self._access = access
        self._view = view
        self._routers = routers
        self._denied = denied

        async def page(request: bytes, caller: Caller) -> bytes:
            return await management.page()

        rpcs = {**management.rpcs, PAGE[0]: {PAGE[1]: page}}
        self._methods = {service: tuple(methods) for service, methods in management.rpcs.items()}
        self._calls = CallServer(rpcs, self.in_step)
        self._tallies = TallyServer(meters, lambda: self._hub.routers)
        patience = inputs.settings.recovery_wait_ms / 1000
        self._leases = LeaseServer(view, lambda: self._hub.routers, patience)
        words = {**self._leases.words, "ready": self._ready, "refused": self._refused, "denied": self._deny}
        self._hub = LinkHub(control, words={**self._calls.words, **self._tallies.words, **words}, roll=self)
        if view.routes is not EMPTY:
            self._hub.publish(view.routes)
        view.on_published(self._hub.publish)
        view.on_lost(self._hub.lose)
        self._leases.start()
        meters.own.refresh_by(self._tallies.collect)

        self._numbers = range(1, inputs.settings.workers + 1)
        path = inputs.settings.grpc_socket_path
        self._socket = SharedSocket(path) if path else None
        self._processes: dict[str, WorkerProcess] = {}
        self._serving: dict[str, int] = {}
        self._opened: dict[int, asyncio.Future[Mapping[str, int]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._watcher: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self.replaced = 0

    async def open(self) -> Mapping[str, int]:
        """Start every worker; the ports by name once all serve. Raises BridgeError where one cannot."""
        loop = asyncio.get_running_loop()
        self._opened = {number: loop.create_future() for number in self._numbers}
        self._tasks = [asyncio.create_task(self._keep(number), name=f"worker {number}") for number in self._numbers]
        self._watcher = asyncio.create_task(self._watch(), name="silent workers")
        ports = await asyncio.gather(*self._opened.values())
        return ports[0]

    @property
    def serving(self) -> int:
        """Workers that answer clients now."""
        return len(self._serving)

    async def in_step(self) -> None:
        """Return once every worker answers by what this process has published up to now."""
        # What was to be published soon comes first: the event loop takes turns in order.
        await asyncio.sleep(0)
        await self._hub.wait_settled()

    async def close(self) -> None:
        """Let every worker finish its requests in flight, and end."""
        self._closing.set()
        for process in self._processes.values():
            process.terminate()
        limit = self._inputs.settings.drain_seconds + SHORT_LIFE
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit)
        for process in self._processes.values():
            process.kill()
        tasks = [*self._tasks, *([self._watcher] if self._watcher is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    # Roll: which workers the hub talks to

    def joined(self, router: Router) -> None:
        self._routers.enlist(router.name)
        self._leases.welcome(router)

    def left(self, router: Router) -> None:
        self._routers.dismiss(router.name)
        self._calls.forget(router)
        self._tallies.forget(router)
        number = self._serving.pop(router.name, None)
        if number is not None and self._socket is not None:
            self._socket.withdraw(number, list(self._serving.values()))

    async def _keep(self, number: int) -> None:
        """Have a worker of this number, whatever becomes of it."""
        pause = 0.0
        while not self._closing.is_set():
            started = time.monotonic()
            ended = await self._live(number)
            if self._closing.is_set():
                return
            short = time.monotonic() - started < SHORT_LIFE
            pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE) if short else 0.0
            logger.warning("worker %d %s; another one takes its place", number, ended)
            self.replaced += 1
            await asyncio.sleep(pause)

    async def _live(self, number: int) -> str:
        """One life of a worker; how it ended."""
        try:
            process = await WorkerProcess.spawn()
        except OSError as error:
            return f"could not be started: {error.strerror}"
        name = f"worker-{number}-{process.pid}"
        self._processes[name] = process
        if self._closing.is_set():
            process.terminate()
        try:
            lines = await process.start(self._told(number, name))
            if lines is not None:
                await self._hub.serve(lines, name)
            ended = _ended(await process.ended())
        finally:
            process.kill()
            del self._processes[name]
        self._decide(number, Internal(f"worker {number} {ended} at its start; the log says more."))
        return ended

    def _told(self, number: int, name: str) -> WorkerStart:
        settings = self._inputs.settings
        if self._socket is not None:
            settings = replace(settings, grpc_socket_path=self._socket.of(number))
        inputs = replace(self._inputs, settings=settings)
        return WorkerStart(name, inputs, self._access, self._methods, routed=self._view.routes is not EMPTY)

    def _ready(self, router: Router, document: bytes) -> None:
        number = _number(router)
        self._serving[router.name] = number
        if self._socket is not None:
            self._socket.offer(number)
        logger.info("%s serves", router.name)
        self._decide(number, json.loads(document))

    def _refused(self, router: Router, document: bytes) -> None:
        code, text = json.loads(document)
        logger.error("%s cannot serve: %s", router.name, text)
        self._decide(_number(router), BridgeError(text, Code(code)))

    def _decide(self, number: int, outcome: Mapping[str, int] | BridgeError) -> None:
        """What became of the first worker of this number."""
        opened = self._opened[number]
        if opened.done():
            return
        if isinstance(outcome, BridgeError):
            opened.set_exception(outcome)
        else:
            opened.set_result(outcome)

    def _deny(self, router: Router, document: bytes) -> None:
        self._denied(plain.denial_of_plain(json.loads(document)))

    async def _watch(self) -> None:
        """Kill workers that say nothing for the time of a router's lease: they would hold up everybody.

        Time is counted in looks, so that a pause of this process is none of theirs.
        """
        silent: dict[Router, tuple[int, int]] = {}
        most = max(1, round(self._inputs.settings.router_lease_seconds / LOOK_SECONDS))
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            silent = {router: _looked(router, silent.get(router)) for router in self._hub.routers}
            for router, (_, looks) in silent.items():
                if looks > most and router.name in self._processes:
                    logger.error("%s said nothing for %d looks of %g s: it is killed", router.name, looks, LOOK_SECONDS)
                    self._processes[router.name].kill()


def _looked(router: Router, before: tuple[int, int] | None) -> tuple[int, int]:
    """What was heard of a router, and how often nothing new was."""
    if before is None or before[0] != router.heard:
        return router.heard, 0
    return router.heard, before[1] + 1


def _number(router: Router) -> int:
    return int(router.name.split("-")[1])


def _ended(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
