"""The Triton instances that the settings name: a child of this process, or remote ones."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from bridge.agents.mirrors import Mirrors
from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.lifecycle.cache_instance import ControlledInstance
from bridge.lifecycle.copies import Deliver, InstanceLimits, WarmUp, already_there
from bridge.lifecycle.embedded import EmbeddedSupervisor
from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.instance import InstanceController, InstanceListener
from bridge.lifecycle.leases import permitted
from bridge.serving.routes import InstanceRoute
from bridge.settings import Settings
from bridge.state_dir import StateDir
from bridge.tfserving.session_bundle import SessionBundle
from bridge.triton.embedded import EmbeddedSettings, EmbeddedTriton
from bridge.triton.instance import Permission, TritonInstance
from bridge.triton.probe import probe
from model_repo_sync import device as devices
from model_repo_sync import names
from model_repo_sync.batching import Batching
from model_repo_sync.repository import ModelRepository
from model_repo_sync.runner.tensorflow_engine.gpu_memory import GpuMemory
from model_repo_sync.runner.tensorflow_engine.machine import available_memory
from model_repo_sync.triton_config import RunnerOptions

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Child:
    """What the history calls a child of this process, and whose it is."""

    name: str
    owner: str


def own_child() -> Child:
    """The only child that there is."""
    return Child(EMBEDDED, f"process {os.getpid()}")


EXIT_SECONDS = 3
"""The request path has drained before Triton is told to end, so it has nothing to wait for but dead runners."""

SPARE_LOAD_THREADS = 2
"""Triton up to 25.08 can lose load threads for good; these keep the others going for a while."""

SHARE_OF_AVAILABLE = 0.9
"""How much of the memory that is available registered models may take where nobody says how much."""

Check = Callable[[TritonInstance], Awaitable[None]]


def device(settings: Settings) -> devices.Device:
    """Where models run. Raises InvalidArgument."""
    try:
        return devices.parse(settings.device).resolve(devices.nvidia_gpu_visible)
    except ValueError as error:
        raise InvalidArgument(f"--device={settings.device}: {error}") from error


def start_embedded(settings: Settings, state: StateDir) -> EmbeddedTriton:
    """Start a child on the main thread; `state` is held. Everything else can be prepared while it comes up."""
    gpu = device(settings).kind is devices.DeviceKind.GPU
    triton = EmbeddedTriton(
        state,
        settings=EmbeddedSettings(
            gpu=gpu, exit_timeout=EXIT_SECONDS, load_threads=settings.load_concurrency + SPARE_LOAD_THREADS
        ),
    )
    triton.start()
    return triton


def runner_options(settings: Settings, bundle: SessionBundle) -> RunnerOptions:
    """How runners run SavedModels. Raises InvalidArgument."""
    return RunnerOptions(
        threads=settings.runner_threads,
        queue_size=settings.runner_queue_size,
        device=device(settings),
        session=bundle.session_config.SerializeToString(),
        batching=Batching(bundle.batching, bundle.per_model_batching) if bundle.batching is not None else None,
        op_libraries=tuple(path for path in settings.op_libraries.split(",") if path),
        processes=settings.runner_processes,
    )


class Owner(InstanceListener, Protocol):
    """Whose fleet the instances are."""

    @property
    def fleet(self) -> Fleet: ...


class Placed(Protocol):
    """Who hears where instances are."""

    def instance_placed(self, route: InstanceRoute, owner: str) -> None: ...


class Instances:
    """Puts instances under the control of `plane`. Work that blocks is done on `executor`.

    `warm_up` prepares copies for their first requests. With `mirrors` remote instances have agents.
    """

    def __init__(
        self,
        settings: Settings,
        plane: Owner,
        observations: Placed,
        deployment: str,
        executor: Executor,
        warm_up: WarmUp,
        mirrors: Mirrors | None = None,
        *,
        child: Child | None = None,
        permission: Permission = permitted,
    ) -> None:
        """`child` is told of one of several. `permission` returns while remote instances may be changed."""
        self._settings = settings
        self._plane = plane
        self._observations = observations
        self._deployment = deployment
        self._executor = executor
        self._warm_up = warm_up
        self._mirrors = mirrors
        self._available: dict[str, int] = {}
        self._child = child or own_child()
        self._permission = permission

    def add_embedded(self, triton: EmbeddedTriton) -> EmbeddedSupervisor:
        """The child; the supervisor that is returned has to run."""
        repository = ModelRepository(triton.repository, self._deployment, self._settings.model_transfer)
        controller = self._add(self._child.name, repository, self._check_child)

        def connect(route: InstanceRoute) -> TritonInstance:
            self._observations.instance_placed(route, self._child.owner)
            return TritonInstance.connect(route)

        return EmbeddedSupervisor(triton, controller, connect)

    def add_remote(self) -> None:
        """Every instance of --triton_url, paired by position with its HTTP address and its repository.

        Raises FailedPrecondition for a repository that cannot be used.
        """
        settings = self._settings
        repositories: dict[str, ModelRepository] = {}
        for position, url in enumerate(settings.triton_url):
            path = settings.triton_repository[position if len(settings.triton_repository) > 1 else 0]
            local, _, seen = path.partition("=")
            if local not in repositories:
                repositories[local] = self._open_repository(local)
            route = self._route(url, settings.triton_http_url[position] if settings.triton_http_url else "")
            self._observations.instance_placed(route, f"deployment {self._deployment}")
            if self._mirrors is not None:
                self._mirrors.add(url, repositories[local])
            controller = self._add(url, repositories[local], self._prober(url, repositories[local], seen or local))
            controller.attach(TritonInstance.connect(route, self._permission), route)

    def cache_instances(self) -> list[ControlledInstance]:
        """The instances as places for registered models. Where no capacity is given it is asked from the machine."""
        return [
            ControlledInstance(controller, self._capacity(name, position), self._labels(position))
            for position, (name, controller) in enumerate(self._plane.fleet.controllers.items())
        ]

    def _capacity(self, name: str, position: int) -> Callable[[], int]:
        given = _at(self._settings.triton_capacity_bytes, position)
        if given:
            return lambda: int(given)
        return lambda: int(self._available.get(name, 0) * SHARE_OF_AVAILABLE)

    def _labels(self, position: int) -> frozenset[str]:
        labels = _at(self._settings.triton_labels, position).split(",")
        return frozenset(label.strip() for label in labels if label.strip())

    async def _check_child(self, instance: TritonInstance) -> None:
        """A child proved by its nonce that it is ours before it was attached."""
        gpu = device(self._settings).kind is devices.DeviceKind.GPU
        self._came_up(self._child.name, GpuMemory().free() if gpu else 0, available_memory())

    def _prober(self, name: str, repository: ModelRepository, seen: str) -> Check:
        async def check(instance: TritonInstance) -> None:
            runner = (await probe(instance, repository, seen)).runner
            gpu = device(self._settings).kind is devices.DeviceKind.GPU
            self._came_up(name, runner.available_device_bytes if gpu else 0, runner.available_bytes)

        return check

    def _came_up(self, name: str, device_bytes: int, host_bytes: int) -> None:
        """What an instance has left; the most that was seen, since later on some of it is ours."""
        self._available[name] = max(self._available.get(name, 0), device_bytes or host_bytes)

    def _open_repository(self, path: str) -> ModelRepository:
        try:
            repository = ModelRepository(path, self._deployment, self._settings.model_transfer)
            _remove_left_probes(repository)
        except OSError as error:
            raise FailedPrecondition(
                f"The model repository {path} cannot be used: {error.strerror}. "
                "Give --triton_repository a directory that the bridge may write."
            ) from error
        return repository

    def _add(self, name: str, repository: ModelRepository, check: Check) -> InstanceController:
        limits = InstanceLimits(
            load_concurrency=self._settings.load_concurrency,
            load_timeout=float(self._settings.model_load_timeout_seconds),
        )
        fleet = self._plane.fleet
        controller = InstanceController(
            name, repository, fleet, self._plane, self._executor, limits, check, self._warm_up, self._deliver(name)
        )
        fleet.add(controller)
        return controller

    def _deliver(self, name: str) -> Deliver:
        return already_there if self._mirrors is None else partial(self._mirrors.deliver, name)

    def _route(self, url: str, http: str) -> InstanceRoute:
        headers = dict(header.split("=", 1) for header in self._settings.triton_header)
        return InstanceRoute(url, grpc=url, http=http, tls=self._tls(), headers=headers)

    def _tls(self) -> dict[str, str]:
        settings = self._settings
        files = {"ca": settings.triton_ca_file, "cert": settings.triton_cert_file, "key": settings.triton_key_file}
        wanted = settings.triton_tls or bool(settings.triton_ca_file)
        return {name: path for name, path in files.items() if path} | {"enabled": "true"} if wanted else {}


def _at(given: Sequence[str], position: int) -> str:
    """A setting that is given once for all instances, or by position; empty where it is not given."""
    return given[position if len(given) > 1 else 0] if given else ""


def _remove_left_probes(repository: ModelRepository) -> None:
    """A process that was killed while it probed an instance left the probe behind."""
    for name in repository.names():
        if names.parse(name) is None:
            repository.remove(name)
