"""Builds the sidecar's parts from its settings, starts and stops them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bridge.client_ports import channel_arguments
from bridge.codec.model_spec import Namespace
from bridge.errors import Internal
from bridge.instances import Instances, runner_options, start_embedded
from bridge.lifecycle.copies import WarmUp, no_warm_up
from bridge.lifecycle.warmup import Warmup
from bridge.memory import keep_large_buffers_apart
from bridge.modelmesh import registration
from bridge.modelmesh.registration import Registration
from bridge.parts import Parts
from bridge.registry.records import RegisteredModel
from bridge.runtime import service
from bridge.runtime.deployment import deployment_id
from bridge.runtime.models import Enroll, HostedModels
from bridge.runtime.plane import RuntimePlane
from bridge.runtime.service import ModelRuntimeService
from bridge.runtime.settings import RuntimeSettings
from bridge.runtime.status import Parameters
from bridge.serving.addressing import Addressing
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore, InferenceSettings
from bridge.serving.legs import LegPool
from bridge.state_dir import StateDir
from bridge.tfserving.grpc_server import GrpcServer
from bridge.tfserving.rpc import Service, answered
from bridge.tfserving.session_bundle import SessionBundle, session_bundle
from bridge.transport.choice import opener
from bridge.triton.leg import open_leg, shared_memory
from model_repo_sync.storage import Storage, StorageOptions

logger = logging.getLogger(__name__)

ADDRESSING = Addressing((Namespace.REGISTERED,), required=True)
"""ModelMesh resolved vmodels already, and writes the model's id where it knows the place, else only in metadata."""


class RuntimeApplication:
    """One sidecar process. `on_listen` is told the address once ModelMesh may call, which is before Triton is up."""

    def __init__(self, settings: RuntimeSettings, on_listen: Callable[[str], None]) -> None:
        self._runtime = settings
        self._settings = settings.server
        self._on_listen = on_listen
        self._state = StateDir(settings.server.state_dir)
        self._work = ThreadPoolExecutor(self._settings.load_concurrency + 2, thread_name_prefix="load")
        self._parts = Parts(self._part_failed)
        self._stop = asyncio.Event()
        self._failed = ""

    async def serve(self) -> None:
        """Run until SIGTERM or SIGINT; a second signal ends at once. Raises BridgeError."""
        self._own_signals()
        keep_large_buffers_apart()
        self._state.acquire()
        try:
            await self._start()
            await self._stop.wait()
        finally:
            await self._parts.close()
            self._work.shutdown(wait=False, cancel_futures=True)
            self._state.release()
        if self._failed:
            raise Internal(f"{self._failed} failed; the log says more.")

    async def _start(self) -> None:
        settings = self._settings
        parameters = self._parameters()
        parameters.check()
        for given in settings.triton_capacity_bytes:
            parameters.check_capacity(int(given))
        bundle = session_bundle(settings)
        deployment = deployment_id(self._state, settings.deployment_id)
        plane = RuntimePlane(settings.router_lease_seconds)
        view = RoutesView()
        plane.leases.enlist(view.router, permanent=True)
        plane.publisher.subscribe(view.publish)
        plane.on_lost(view.lose)
        view.connect(plane.drained)
        instances = Instances(settings, plane, plane, deployment, self._work, self._warm_up(bundle))
        self._add_instance(instances)
        [controller] = plane.fleet.controllers.values()
        [instance] = instances.cache_instances()
        models = HostedModels(
            plane,
            controller,
            self._enroll(deployment, bundle),
            deployment,
            default_size=parameters.default_size,
            drain_seconds=settings.drain_seconds,
        )
        plane.publish_models(models.routes)
        self._parts.on_close(controller.close)
        self._parts.on_close(models.close)
        core = self._core(view, plane)
        self._parts.spawn(controller.run(), f"instance {controller.name}")
        await self._listen(core, ModelRuntimeService(models, controller, instance, parameters))

    def _parameters(self) -> Parameters:
        settings = self._settings
        return Parameters(
            default_size=settings.modelmesh_default_model_bytes,
            load_concurrency=settings.load_concurrency,
            load_timeout_ms=settings.model_load_timeout_seconds * 1000,
            max_concurrency=self._runtime.max_concurrency,
            allow_any_method=self._runtime.allow_any_method,
        )

    def _add_instance(self, instances: Instances) -> None:
        if self._settings.triton_url:
            instances.add_remote()
            return
        triton = start_embedded(self._settings, self._state)
        self._parts.on_close(triton.stop)
        self._parts.spawn(instances.add_embedded(triton).run(), "embedded Triton")

    def _warm_up(self, bundle: SessionBundle) -> WarmUp:
        if not bundle.warmup:
            return no_warm_up
        check = self._settings.enable_signature_method_name_check
        return Warmup(self._work, _ignore, iterations=bundle.warmup_iterations, check_method_names=check).replay

    def _enroll(self, deployment: str, bundle: SessionBundle) -> Enroll:
        settings = self._settings
        storage = Storage(
            StorageOptions(
                model_root=settings.model_root,
                config_directory=settings.storage_config_dir,
                pvc_root=settings.pvc_root,
                cache=os.fspath(self._state.path / "registered"),
            )
        )
        prepare = registration.preparer(runner_options(settings, bundle), tuple(bundle.tags), storage)

        def enroll(model: RegisteredModel) -> Registration:
            return Registration(model, deployment, prepare, self._work)

        return enroll

    def _core(self, view: RoutesView, plane: RuntimePlane) -> InferenceCore:
        settings = self._settings
        recovery_wait = settings.recovery_wait_ms / 1000
        memory = shared_memory(settings.triton_shared_memory_threshold, settings.triton_shared_memory_bytes)
        core = InferenceCore(
            view,
            LegPool(partial(open_leg, http_body_limit=settings.triton_http_body_limit, memory=memory)),
            plane,
            InferenceSettings(
                recovery_wait=recovery_wait,
                request_timeout=float(settings.request_timeout_seconds),
                queue_size=settings.runner_queue_size,
                check_method_names=settings.enable_signature_method_name_check,
                load_wait=recovery_wait,
            ),
        )
        core.start()
        self._parts.on_close(core.close)
        return core

    async def _listen(self, core: InferenceCore, runtime: ModelRuntimeService) -> None:
        settings = self._settings
        rpcs = {name: answered(rpc, name) for name, rpc in runtime.rpcs().items()}
        arguments = channel_arguments(settings.grpc_channel_arguments)
        server = GrpcServer(
            core,
            as_content=settings.enable_serialization_as_tensor_content,
            addressing=ADDRESSING,
            services={service.SERVICE: Service(rpcs)},
            open_server=opener(settings.grpc_server, arguments=arguments),
        )
        listen = self._runtime.listen
        port = await server.start(listen)
        self._parts.on_close(lambda: server.stop(settings.drain_seconds))
        self._on_listen(listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}")

    def _part_failed(self, name: str) -> None:
        self._failed = name
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
        self._stop.set()


def _ignore(path: str, status: str, records: int, seconds: float) -> None:
    """Nobody counts warmups here."""
