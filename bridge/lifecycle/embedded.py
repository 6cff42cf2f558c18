"""Keeps the embedded Triton running and its instance's controller attached to the child that lives now."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection

from bridge.errors import BridgeError
from bridge.lifecycle.backoff import Backoff
from bridge.lifecycle.instance import InstanceController
from bridge.serving.routes import InstanceRoute
from bridge.triton import stubs
from bridge.triton.embedded import EmbeddedTriton
from bridge.triton.instance import TritonInstance

logger = logging.getLogger(__name__)

STEADY_SECONDS = 30.0
"""A child that lived this long did not die of its start, so the next start waits for nothing."""

FIRST_RESTART_SECONDS, LAST_RESTART_SECONDS = 60.0, 3600.0
"""Between two restarts that a hanging load asks for, at first and at most."""

Connect = Callable[[InstanceRoute], TritonInstance]


class EmbeddedSupervisor:
    """Starts the child again when it ends, with growing pauses while it ends soon.

    Runs on the main thread's event loop: the kernel ends the child when the thread that started it ends.
    """

    def __init__(self, triton: EmbeddedTriton, controller: InstanceController, connect: Connect) -> None:
        self._triton = triton
        self._controller = controller
        self._connect = connect
        self._patience = Backoff(FIRST_RESTART_SECONDS, LAST_RESTART_SECONDS)
        self._no_restart_before = 0.0

    def runners(self) -> Collection[str]:
        """Triton names of the models that a stub of the child lives for."""
        pid = self._triton.pid
        return stubs.models(pid) if pid is not None else ()

    def restart(self, reason: str) -> None:
        """Kill the child, which `run` replaces. All models pay for it, so the pauses between restarts grow."""
        if time.monotonic() < self._no_restart_before:
            return
        self._no_restart_before = time.monotonic() + self._patience.pause()
        logger.error("tritonserver is started anew: %s", reason)
        self._triton.kill()

    async def run(self) -> None:
        """Watch the child, which was started already, until cancelled."""
        backoff = Backoff(0.1, 10.0)
        started = time.monotonic()
        await self._attach(self._triton.ready)
        while True:
            code = await self._triton.wait()
            lived = time.monotonic() - started
            logger.warning("tritonserver ended with %s after %.0f s", code, lived)
            self._controller.detach(f"tritonserver ended with {code}")
            if lived > STEADY_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.pause())
            started = time.monotonic()
            await self._attach(self._triton.restart)

    async def _attach(self, begin: Callable[[], Awaitable[None]]) -> None:
        try:
            await begin()
        except (BridgeError, OSError) as error:
            logger.error("the embedded Triton does not serve: %s", error)
            self._controller.detach(str(error))
            self._triton.kill()
            return
        route = InstanceRoute(self._controller.name, grpc=self._triton.grpc, http=self._triton.http)
        self._controller.attach(self._connect(route), route, self)
