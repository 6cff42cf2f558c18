"""Builds every part from the settings, starts and stops it, owns the signals. The only place that knows all parts."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from bridge import inputs as server_inputs
from bridge.access_parts import AccessParts
from bridge.decider import decider
from bridge.deciding import Deciding
from bridge.errors import Internal
from bridge.executors import Executors
from bridge.inputs import Inputs
from bridge.instances import start_embedded
from bridge.memory import keep_large_buffers_apart, settle
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.parts import Parts
from bridge.port_parts import PortParts
from bridge.registry_access import RegistryAccess, integrity_operations
from bridge.request_parts import request_path
from bridge.settings import Settings
from bridge.stage import Stage
from bridge.state_dir import StateDir
from bridge.tfserving.metrics import ServingMetrics
from bridge.worker_parts import Clients, clients
from bridge.workers.acknowledged import Acknowledged

logger = logging.getLogger(__name__)


class Application:
    """One server process with request path and control plane on one event loop.

    `serve` runs it to its end. `on_ready` is told the bound ports (grpc, rest, admin) once every configured model
    serves, ended in error, or has nothing to serve. `state` is the state directory where it is not that of the
    settings. With `models_first` clients' ports open when the models serve, as TF Serving's do, and a model that ends
    in error fails the start.
    """

    def __init__(
        self,
        settings: Settings,
        on_ready: Callable[[dict[str, int]], None],
        *,
        state: StateDir | None = None,
        models_first: bool = False,
    ) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._models_first = models_first
        self._state = state or StateDir(settings.state_dir)
        self._executors = Executors(settings)
        self._parts = Parts(self._part_failed)
        self._stop = asyncio.Event()
        self._cause = "the start failed"
        self._failed = ""

    async def serve(self) -> None:
        """Run until SIGTERM or SIGINT; a second signal ends at once.

        Raises BridgeError when the start fails, or when a part fails later on without which the server cannot go on.
        """
        self._own_signals()
        keep_large_buffers_apart()
        self._state.acquire()
        try:
            await self._start()
            await self._stop.wait()
        finally:
            await self._parts.close()
            self._executors.shut_down()
            self._state.release()
        if self._failed:
            raise Internal(f"{self._failed} failed; the log says more.")

    async def _start(self) -> None:
        inputs = server_inputs.read(self._settings, os.environ)
        triton = None if self._settings.triton_url else start_embedded(self._settings, self._state)
        if triton is not None:
            self._parts.on_close(triton.stop)
        access = await RegistryAccess.open(self._settings, self._state, self._parts)
        guard = AccessParts(inputs.access, access)
        ports = PortParts(inputs, self._parts, guard.gates, integrity_operations(self._settings, self._state))
        stage = Stage(
            inputs=inputs,
            state=self._state,
            access=access,
            executors=self._executors,
            parts=self._parts,
            ports=ports,
            guard=guard,
            mirrors=await ports.agents(access.registry.deployment_id, self._executors),
            triton=triton,
            serving=ServingMetrics(),
            mesh=_mesh_metrics(inputs),
            cause=lambda: self._cause,
        )
        deciding = await decider(stage)
        gauges = deciding.gauges
        path = request_path(inputs.clients, deciding.view, deciding.control, gauges, self._parts)
        await deciding.start(path)
        answering = clients(stage, deciding, path)
        bound = await ports.admin(Acknowledged(deciding.admin(), answering.in_step))
        self._state.write_server(bound, inputs.secure_ports)
        if not await self._before_stop(deciding.load_first(models_first=self._models_first)):
            return
        bound |= await answering.open(rest_optional=self._models_first)
        if self._settings.modelmesh_port:
            bound |= await ports.mesh_metrics(gauges.own)
        self._state.write_server(bound, inputs.secure_ports)
        self._parts.spawn(self._announce(deciding, answering, bound), "announcement")

    async def _before_stop(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work` to its end, or until this server has to stop; whether it came to its end."""
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if task.done():
            task.result()
            return True
        task.cancel()
        return False

    async def _announce(self, deciding: Deciding, answering: Clients, ports: dict[str, int]) -> None:
        await deciding.settled()
        await answering.in_step()
        settle()
        self._on_ready(ports)

    def _part_failed(self, name: str) -> None:
        self._failed = name
        self._cause = f"{name} failed"
        self._stop.set()

    def _own_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            logger.warning("second %s: ending at once", number.name)
            os.kill(os.getpid(), signal.SIGKILL)
        logger.info("%s: draining for at most %d s", number.name, self._settings.drain_seconds)
        self._cause = number.name
        self._stop.set()


def _mesh_metrics(inputs: Inputs) -> MeshMetrics:
    return MeshMetrics(per_model=inputs.mesh_metrics.per_model, info=inputs.mesh.info)
