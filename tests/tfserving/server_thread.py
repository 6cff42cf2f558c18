"""The two ports over a test double of Triton, on an event loop in a thread: tests use plain blocking clients."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from bridge.errors import Code
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore, InferenceSettings
from bridge.serving.legs import LegPool, OpenLeg
from bridge.serving.observer import Observers
from bridge.serving.routes import Routes
from bridge.telemetry.observers import RequestObserver
from bridge.tfserving.batching_metrics import BatchingMetrics
from bridge.tfserving.grpc_server import GrpcServer
from bridge.tfserving.metrics import ServingMetrics
from bridge.tfserving.metrics_page import DEFAULT_PATH, MetricsPage
from bridge.tfserving.rest_access import RestAccess
from bridge.tfserving.rest_server import RestServer
from bridge.transport.choice import AUTO, opener
from tests.serving import snapshots
from tests.serving.half_plus_two import FakeLeg

T = TypeVar("T")


class SilentControl:
    """A control plane that has nothing to do."""

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None: ...

    def drained(self, router: str, epoch: int) -> None: ...

    def load_on_demand(self, model_id: str) -> None: ...

    def used(self, model_id: str, count: int) -> None: ...


class ServerThread:
    """A running bridge front over `leg`, or what `open_leg` opens. `view` and `leg` belong to its loop: use `run`.

    `observed` holds (API, call, code) of each answered request.
    """

    def __init__(
        self,
        *,
        as_content: bool = False,
        cors: bool = False,
        timeout_in_ms: int = 30_000,
        page: bool = False,
        open_leg: OpenLeg | None = None,
        access: RestAccess | None = None,
        grpc_server: str = os.environ.get("BRIDGE_GRPC_SERVER", AUTO),
    ) -> None:
        self.leg = FakeLeg(snapshots.instance("one"))
        self._open_leg = open_leg or (lambda instance: self.leg)
        self._open_server = opener(grpc_server)
        self.observed: list[tuple[str, str, Code]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.run(self._start, as_content, cors, timeout_in_ms, page, access)

    def run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        async def call() -> T:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(30)

    def publish(self, routes: Routes) -> None:
        async def publish() -> None:
            self.view.publish(routes)

        self.run(publish)

    def hold(self, held: bool) -> None:
        """Make the model answer nothing, or go on."""

        async def hold() -> None:
            if self.leg.hold is not None:
                self.leg.hold.set()
            self.leg.hold = asyncio.Event() if held else None

        self.run(hold)

    def close(self) -> None:
        self.run(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(
        self, as_content: bool, cors: bool, timeout_in_ms: int, page: bool, access: RestAccess | None
    ) -> None:
        self.view = RoutesView()
        legs = LegPool(self._open_leg)
        metrics = ServingMetrics()
        settings = InferenceSettings(recovery_wait=0.2)
        self.core = InferenceCore(self.view, legs, SilentControl(), settings, Observers([metrics]))
        self._grpc = GrpcServer(
            self.core, as_content=as_content, observe=self._observer("grpc"), open_server=self._open_server
        )
        self._rest = RestServer(
            self.core,
            timeout_in_ms=timeout_in_ms,
            cors=cors,
            page=MetricsPage(DEFAULT_PATH, BatchingMetrics(None, metrics).page) if page else None,
            observe=self._observer("rest"),
            access=access,
        )
        self.address = f"127.0.0.1:{await self._grpc.start('127.0.0.1:0')}"
        self.rest_port = await self._rest.start("127.0.0.1", 0)

    def _observer(self, api: str) -> RequestObserver:
        def observe(call: str, code: Code, seconds: float) -> None:
            assert seconds >= 0
            self.observed.append((api, call, code))

        return observe

    async def _stop(self) -> None:
        await self._grpc.stop(1)
        await self._rest.stop(1)
        await self.core.close()


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Return once `condition` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
