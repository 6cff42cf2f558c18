"""Builds every part from the settings, starts and stops it, owns the signals. The only place that knows all parts."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from bridge import __version__
from bridge.agents.app import agent_app
from bridge.agents.mirrors import Mirrors
from bridge.client_ports import EVERYWHERE, ClientPorts, channel_arguments
from bridge.console.admin import admin_app
from bridge.console.health import Health
from bridge.console.hosts import is_loopback
from bridge.errors import Internal, InvalidArgument
from bridge.http_server import HttpServer
from bridge.instances import Instances, runner_options, start_embedded
from bridge.lifecycle import source_config, transition
from bridge.lifecycle.configurator import STARTER, Configurator
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.copies import WarmUp, no_warm_up
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.first_load import wait_for_models
from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.leases import RouterLeases
from bridge.lifecycle.loader import Loader
from bridge.lifecycle.observations import Observations
from bridge.lifecycle.operations import Operations
from bridge.lifecycle.recorder import Recorder
from bridge.lifecycle.servable import preparer
from bridge.lifecycle.served_before import ServedBefore
from bridge.lifecycle.warmup import Warmup
from bridge.memory import keep_large_buffers_apart
from bridge.modelmesh import environment, registration, static_models, type_constraints
from bridge.modelmesh import service as model_mesh
from bridge.modelmesh.environment import MetricsOptions
from bridge.modelmesh.mesh import ModelMesh
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.modelmesh.operations import ModelMeshOperations
from bridge.modelmesh.request_meter import RequestMeter, RunMeter
from bridge.modelmesh.service import ModelMeshService
from bridge.parts import Parts
from bridge.placement.settings import PlacementSettings
from bridge.registry import schema
from bridge.registry.database import sqlite_url
from bridge.registry.events import ServerStarted, ServerStopped
from bridge.registry.records import Problem, Version
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.addressing import MODELMESH
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore, InferenceSettings
from bridge.serving.legs import LegPool
from bridge.serving.observer import Observers
from bridge.serving.routes import VersionState
from bridge.serving.runners import Runners
from bridge.settings import Settings, describe
from bridge.state_dir import StateDir
from bridge.telemetry import grpc_health
from bridge.telemetry.grpc_health import HealthService
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.metrics_port import metrics_server
from bridge.telemetry.record_files import RecordFiles
from bridge.telemetry.request_log import RequestLog
from bridge.telemetry.state import StateCollector
from bridge.tfserving import ssl_config
from bridge.tfserving.batching_metrics import BatchingMetrics
from bridge.tfserving.grpc_server import GrpcServer
from bridge.tfserving.metrics import ServingMetrics
from bridge.tfserving.metrics_page import MetricsPage, metrics_path
from bridge.tfserving.reload import reloader
from bridge.tfserving.rest_server import RestServer
from bridge.tfserving.rpc import unary
from bridge.tfserving.session_bundle import SessionBundle, session_bundle
from bridge.tfserving.ssl_config import ServerTls
from bridge.triton.leg import open_leg
from bridge.triton.metered_leg import MeteredLeg
from model_repo_sync.source_cache import SourceCache
from model_repo_sync.storage import Storage, StorageOptions

logger = logging.getLogger(__name__)

SCAN_THREADS = 8
LOAD_THREADS = 4
STORE_THREADS = 8
FLUSH_SECONDS = 5.0
HEALTH_NAMES = ("", "ModelService", "PredictionService")
"""TF Serving's, which are not the full names of its services."""


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
        self._scans = ThreadPoolExecutor(SCAN_THREADS, thread_name_prefix="scan")
        self._work = ThreadPoolExecutor(max(LOAD_THREADS, settings.load_concurrency), thread_name_prefix="load")
        self._store_work = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="store")
        self._storage_work = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="storage")
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
            self._scans.shutdown(wait=False, cancel_futures=True)
            self._work.shutdown(wait=False, cancel_futures=True)
            self._store_work.shutdown(wait=False, cancel_futures=True)
            self._storage_work.shutdown(wait=False, cancel_futures=True)
            self._state.release()
        if self._failed:
            raise Internal(f"{self._failed} failed; the log says more.")

    async def _start(self) -> None:
        settings = self._settings
        listed = static_models.from_environment(os.environ) if settings.modelmesh_port else ()
        variables = environment.read(os.environ if settings.modelmesh_port else {})
        bundle = session_bundle(settings)
        for sentence in bundle.warnings:
            logger.warning("%s", sentence)
        tls = ssl_config.read(settings.ssl_config_file) if settings.ssl_config_file else None
        arguments = channel_arguments(settings.grpc_channel_arguments)
        page_path = metrics_path(settings.monitoring_config_file) if settings.rest_api_port else None
        triton = None if settings.triton_url else start_embedded(settings, self._state)
        if triton is not None:
            self._parts.on_close(triton.stop)
        registry = await asyncio.to_thread(self._open_registry)
        self._parts.on_close_call(registry.close)
        thread = RegistryThread()
        self._parts.on_close_call(thread.close)
        left = await thread.call(registry.versions)
        await thread.call(registry.end_of_process, STARTER)
        await thread.call(registry.append, ServerStarted(__version__, describe(settings)), STARTER)

        recorder = Recorder(thread.call)
        observations = Observations(registry, recorder)
        serving_metrics = ServingMetrics()
        plane = self._control_plane(registry.deployment_id, observations, bundle, serving_metrics)
        plane.expect(_served(left))
        plane.know_problems(_problem_paths(await thread.call(registry.problems)))
        plane.remember_by(ServedBefore(registry, thread, plane.fleet.stored).versions)
        view = RoutesView()
        plane.leases.enlist(view.router, permanent=True)
        plane.publisher.subscribe(view.publish)
        plane.on_lost(view.lose)
        view.connect(plane.drained)
        warm_up = self._warm_up(bundle, serving_metrics)
        mirrors = await self._open_agents(registry.deployment_id)
        instances = Instances(settings, plane, observations, registry.deployment_id, self._work, warm_up, mirrors)
        if triton is None:
            instances.add_remote()
        else:
            self._parts.spawn(instances.add_embedded(triton).run(), "embedded Triton")

        page = variables.metrics or MetricsOptions()
        mesh_metrics = MeshMetrics(per_model=page.per_model, info=variables.info)
        mesh = self._model_mesh(registry, thread, recorder, observations, plane, bundle, mesh_metrics)
        if mesh is not None:
            plane.host(mesh)

        metrics = Metrics(StateCollector(plane, recorder, registry), *([mesh_metrics] if mesh is not None else []))
        runs = [RunMeter(mesh_metrics, view)] if mesh is not None else []
        observers = Observers([serving_metrics, self._request_log(view, bundle, serving_metrics), *runs])
        legs = self._legs(metrics)
        core = InferenceCore(view, legs, plane, self._inference_settings(), observers)
        core.start()
        self._parts.on_close(core.close)
        self._parts.spawn(recorder.run(), "recorder")
        self._parts.on_close(lambda: self._record_end(registry, recorder, thread))
        if mesh is not None:
            await mesh.start(instances.cache_instances())
            self._parts.on_close(mesh.close)
        plane.start()
        self._parts.on_close(plane.stop)
        operations = Operations(registry, thread, plane)
        configurator = Configurator(settings, registry, thread, plane)
        await configurator.start()
        self._parts.spawn(configurator.poll(), "configuration file")
        vmodels = ModelMeshOperations(registry, thread, mesh.manager if mesh is not None else None)
        ports = await self._open_admin(operations, vmodels, Health(plane, registry, thread), metrics)
        self._state.write_server(ports)
        if self._models_first and not await self._before_stop(wait_for_models(plane)):
            return
        if mesh is not None and not await self._before_stop(static_models.register(mesh.manager, listed)):
            return
        health = HealthService(HEALTH_NAMES)
        batching_metrics = BatchingMetrics(Runners(view, legs) if bundle.batching else None, serving_metrics)
        client_ports = ClientPorts(
            settings,
            GrpcServer(
                core,
                reload=reloader(configurator),
                metric=serving_metrics.first_value,
                as_content=settings.enable_serialization_as_tensor_content,
                credentials=self._grpc_credentials(tls),
                handlers={grpc_health.SERVICE: health.handler()} if settings.enable_grpc_healthcheck_service else {},
                arguments=arguments,
                observe=metrics.requests("grpc"),
            ),
            RestServer(
                core,
                timeout_in_ms=settings.rest_api_timeout_in_ms,
                threads=settings.rest_api_num_threads,
                cors=settings.rest_api_enable_cors_support,
                tls=tls.ssl_context() if tls else None,
                page=MetricsPage(page_path, batching_metrics.page) if page_path else None,
                observe=metrics.requests("rest"),
            ),
            rest_optional=self._models_first,
        )
        self._parts.on_close(lambda: client_ports.close(settings.drain_seconds))
        self._parts.on_close_call(health.shut_down)
        ports |= await client_ports.open()
        if mesh is not None:
            meter = RequestMeter(mesh_metrics, view, full_names=page.full_names)
            ports |= await self._open_modelmesh(mesh, core, variables.tls or tls, arguments, metrics, meter)
        if variables.metrics is not None:
            ports |= await self._open_metrics(metrics, variables.metrics)
        self._state.write_server(ports)
        self._parts.spawn(self._announce(plane, ports), "announcement")

    async def _open_modelmesh(
        self,
        mesh: ModelMesh,
        core: InferenceCore,
        tls: ServerTls | None,
        arguments: Mapping[str, int | str],
        metrics: Metrics,
        meter: RequestMeter,
    ) -> dict[str, int]:
        settings, observe = self._settings, metrics.requests("modelmesh")
        service = ModelMeshService(mesh.manager, settings.modelmesh_default_vmodel_owner)
        rpcs = {name: unary(rpc, name, observe) for name, rpc in service.rpcs().items()}
        server = GrpcServer(
            core,
            as_content=settings.enable_serialization_as_tensor_content,
            credentials=self._grpc_credentials(tls),
            addressing=MODELMESH,
            handlers={model_mesh.SERVICE: grpc.method_handlers_generic_handler(model_mesh.SERVICE, rpcs)},
            arguments=arguments,
            interceptors=[meter],
            observe=observe,
        )
        port = await server.start(f"{EVERYWHERE}:{settings.modelmesh_port}")
        self._parts.on_close(lambda: server.stop(settings.drain_seconds))
        return {"modelmesh": port}

    async def _open_metrics(self, metrics: Metrics, options: MetricsOptions) -> dict[str, int]:
        server = metrics_server(metrics, https=options.https)
        port = await server.start(EVERYWHERE, options.port)
        self._parts.on_close(lambda: server.stop(1.0))
        return {"metrics": port}

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

    async def _announce(self, plane: ControlPlane, ports: dict[str, int]) -> None:
        await plane.wait_settled()
        self._on_ready(ports)

    def _open_registry(self) -> Registry:
        settings = self._settings
        url = settings.database_url or sqlite_url(self._state.database_path)
        key = _audit_key(settings.audit_key_file) if settings.audit_key_file else None
        schema.upgrade(url, migrate=settings.migrate, audit_key=key)
        return Registry.open(url, deployment_id=settings.deployment_id or None, audit_key=key)

    def _model_mesh(
        self,
        registry: Registry,
        thread: RegistryThread,
        recorder: Recorder,
        observations: Observations,
        plane: ControlPlane,
        bundle: SessionBundle,
        metrics: MeshMetrics,
    ) -> ModelMesh | None:
        settings = self._settings
        if not settings.modelmesh_port:
            return None
        prepare = registration.preparer(
            runner_options(settings, bundle), tuple(bundle.tags), self._storage(registry.deployment_id)
        )
        return ModelMesh(
            registry,
            thread,
            recorder,
            observations,
            plane.publisher,
            plane.leases,
            prepare,
            self._storage_work,
            PlacementSettings(
                default_size=settings.modelmesh_default_model_bytes,
                load_concurrency=settings.load_concurrency,
                min_churn_age_ms=settings.modelmesh_min_churn_age_ms,
                second_copies=settings.modelmesh_second_copies,
                fill_free_space=settings.modelmesh_fill_free_space,
                constraints=type_constraints.from_environment(os.environ),
                refuse_pinned=bool(settings.triton_capacity_bytes),
            ),
            metrics,
        )

    def _storage(self, deployment: str) -> Storage:
        settings = self._settings
        options = StorageOptions(
            model_root=settings.model_root,
            config_directory=settings.storage_config_dir,
            pvc_root=settings.pvc_root,
            cache=os.fspath(self._beside_repository(deployment, "registered")),
        )
        return Storage(options)

    def _control_plane(
        self, deployment: str, observations: Observations, bundle: SessionBundle, serving_metrics: ServingMetrics
    ) -> ControlPlane:
        settings = self._settings
        options = runner_options(settings, bundle)
        downloads = Downloads(SourceCache(self._beside_repository(deployment, "sources")), self._store_work)

        def loader(fleet: Fleet) -> Loader:
            return Loader(
                preparer(deployment, options, bundle.tags),
                fleet,
                self._work,
                max_retries=settings.max_num_load_retries,
                retry_interval=settings.load_retry_interval,
                downloads=downloads,
                on_trouble=observations.trouble,
                on_attempt=serving_metrics.loaded,
            )

        return ControlPlane(
            deployment,
            Fleet(),
            loader,
            RouterLeases(settings.router_lease_seconds),
            observations,
            source_config.rules(settings),
            self._scans,
            downloads,
            transition.RULES[settings.transition_policy],
        )

    def _beside_repository(self, deployment: str, kind: str) -> Path:
        """Downloads lie on the file system of the model repository, so that they can be linked into it."""
        remote = next(iter(self._settings.triton_repository), "").partition("=")[0]
        return Path(remote, f".{kind}", deployment) if remote else self._state.path / kind

    def _warm_up(self, bundle: SessionBundle, serving_metrics: ServingMetrics) -> WarmUp:
        if not bundle.warmup:
            return no_warm_up
        check = self._settings.enable_signature_method_name_check
        return Warmup(
            self._work, serving_metrics.warmed, iterations=bundle.warmup_iterations, check_method_names=check
        ).replay

    async def _open_agents(self, deployment: str) -> Mirrors | None:
        settings = self._settings
        if not settings.agent_port:
            return None
        mirrors = Mirrors(deployment, self._work)
        agents = HttpServer(agent_app(mirrors, _token(settings.agent_token_file)))
        await agents.start(settings.agent_address, settings.agent_port)
        self._parts.on_close(lambda: agents.stop(1.0))
        return mirrors

    async def _open_admin(
        self, operations: Operations, vmodels: ModelMeshOperations, health: Health, metrics: Metrics
    ) -> dict[str, int]:
        settings = self._settings
        if not settings.admin_port:
            return {}
        local_only = is_loopback(settings.admin_address)
        admin = HttpServer(admin_app(operations, vmodels, health, metrics, local_only=local_only))
        port = await admin.start(settings.admin_address, settings.admin_port)
        self._parts.on_close(lambda: admin.stop(1.0))
        return {"admin": port}

    def _grpc_credentials(self, tls: ServerTls | None) -> grpc.ServerCredentials | None:
        if self._settings.use_alts_credentials:
            return grpc.alts_server_credentials()
        return tls.grpc_credentials() if tls else None

    def _request_log(self, view: RoutesView, bundle: SessionBundle, serving_metrics: ServingMetrics) -> RequestLog:
        files = RecordFiles(self._settings.request_log_file_bytes)
        self._parts.on_close(lambda: asyncio.to_thread(files.close))
        return RequestLog(view, files, bundle.tags, serving_metrics.logged)

    def _legs(self, metrics: Metrics) -> LegPool:
        limit = self._settings.triton_http_body_limit
        return LegPool(lambda route: MeteredLeg(open_leg(route, limit), metrics.triton_calls(route.name)))

    def _inference_settings(self) -> InferenceSettings:
        return InferenceSettings(
            recovery_wait=self._settings.recovery_wait_ms / 1000,
            request_timeout=float(self._settings.request_timeout_seconds),
            queue_size=self._settings.runner_queue_size,
            check_method_names=self._settings.enable_signature_method_name_check,
            load_wait=float(self._settings.modelmesh_load_wait_seconds),
        )

    async def _record_end(self, registry: Registry, recorder: Recorder, thread: RegistryThread) -> None:
        """The last words in the history, if the database still listens."""
        recorder.record(registry.end_of_process, STARTER)
        recorder.record(registry.append, ServerStopped(self._cause), STARTER)
        if not await recorder.flush(FLUSH_SECONDS):
            logger.warning("the registry is away: the end of this server is not recorded")

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


def _token(path: str) -> str:
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--agent_token_file={path} cannot be read: {error}") from error
    if not token.isascii() or not token:
        raise InvalidArgument(f"--agent_token_file={path} holds no token")
    return token


def _audit_key(path: str) -> bytes:
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        raise InvalidArgument(f"--audit_key_file={path} cannot be read: {error.strerror}") from error


def _problem_paths(problems: Iterable[Problem]) -> dict[str, list[str]]:
    """The paths of what is wrong with models, by model."""
    paths: dict[str, list[str]] = {}
    for problem in problems:
        kind, _, model = problem.subject.partition(":")
        if kind == "model":
            paths.setdefault(model, []).append(problem.path)
    return paths


def _served(versions: Iterable[Version]) -> dict[str, set[int]]:
    """The versions that were AVAILABLE when they were observed last, by model."""
    served: dict[str, set[int]] = {}
    for version in versions:
        if version.state == VersionState.AVAILABLE:
            served.setdefault(version.model, set()).add(version.version)
    return served
