"""The control plane of TF Serving's models and the fleet of registered models, built from settings."""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client.registry import Collector

from bridge.executors import Executors
from bridge.inputs import Inputs
from bridge.instances import runner_options
from bridge.lifecycle import source_config, transition
from bridge.lifecycle.contents import Contents
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.copies import WarmUp, no_warm_up
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.leases import RouterLeases, permitted
from bridge.lifecycle.loader import Loader
from bridge.lifecycle.servable import preparer
from bridge.lifecycle.served_before import ServedBefore
from bridge.lifecycle.warmup import Warmup
from bridge.modelmesh import registration
from bridge.modelmesh.mesh import ModelMesh
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.placement.settings import PlacementSettings
from bridge.registry_access import RegistryAccess
from bridge.request_parts import Meters
from bridge.rollback_parts import RollbackParts
from bridge.serving.control import RoutesView
from bridge.state_dir import StateDir
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.state import StateCollector
from bridge.tfserving.metrics import ServingMetrics
from bridge.triton.instance import Permission
from model_repo_sync.source_cache import SourceCache
from model_repo_sync.storage import Storage, StorageOptions


class ControlParts:
    """Builds what decides; nothing here is started."""

    def __init__(self, inputs: Inputs, state: StateDir, access: RegistryAccess, executors: Executors) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._state = state
        self._access = access
        self.executors = executors
        self._deployment = access.registry.deployment_id

    def downloads(self) -> Downloads:
        """Versions that lie in object stores."""
        return Downloads(SourceCache(self._beside_repository("sources")), self.executors.stores)

    def control_plane(
        self, metrics: ServingMetrics, downloads: Downloads, contents: Contents, permission: Permission = permitted
    ) -> ControlPlane:
        """The control plane, which knows what an earlier process left. `metrics` hear of loads.

        `permission` returns while this process may decide.
        """
        access = self._access
        plane = ControlPlane(
            self._deployment,
            Fleet(),
            lambda fleet: self._loader(fleet, downloads, metrics),
            RouterLeases(self._settings.router_lease_seconds, permission=permission),
            access.observations,
            source_config.rules(self._settings),
            self.executors.scans,
            downloads,
            transition.RULES[self._settings.transition_policy],
        )
        plane.expect(access.served)
        plane.know_problems(access.problem_paths)
        contents.keep_if(plane.needs)
        plane.keep(contents)
        plane.remember_by(ServedBefore(access.registry, access.thread, plane.fleet.stored).versions)
        return plane

    def rollback_parts(self, downloads: Downloads) -> RollbackParts:
        """Who knows what was loaded, and keeps it beside the model repository."""
        directory = self._beside_repository("kept")
        return RollbackParts(self._settings, self._access, self.executors, downloads, directory)

    def warm_up(self, metrics: ServingMetrics) -> WarmUp:
        """What is done to a copy between its load and its first request."""
        bundle = self._inputs.bundle
        if not bundle.warmup:
            return no_warm_up
        return Warmup(
            self.executors.loads,
            metrics.warmed,
            iterations=bundle.warmup_iterations,
            check_method_names=self._settings.enable_signature_method_name_check,
        ).replay

    def model_mesh(self, plane: ControlPlane, metrics: MeshMetrics) -> ModelMesh | None:
        """The fleet of registered models, None where ModelMesh's port is off."""
        if not self._settings.modelmesh_port:
            return None
        access, bundle = self._access, self._inputs.bundle
        prepare = registration.preparer(runner_options(self._settings, bundle), tuple(bundle.tags), self._storage())
        return ModelMesh(
            access.registry,
            access.thread,
            access.recorder,
            access.observations,
            plane.publisher,
            plane.leases,
            prepare,
            self.executors.storages,
            self._placement(),
            metrics,
        )

    def _loader(self, fleet: Fleet, downloads: Downloads, metrics: ServingMetrics) -> Loader:
        bundle = self._inputs.bundle
        return Loader(
            preparer(self._deployment, runner_options(self._settings, bundle), bundle.tags),
            fleet,
            self.executors.loads,
            max_retries=self._settings.max_num_load_retries,
            retry_interval=self._settings.load_retry_interval,
            downloads=downloads,
            on_trouble=self._access.observations.trouble,
            on_attempt=metrics.loaded,
        )

    def _placement(self) -> PlacementSettings:
        settings = self._settings
        return PlacementSettings(
            default_size=settings.modelmesh_default_model_bytes,
            load_concurrency=settings.load_concurrency,
            min_churn_age_ms=settings.modelmesh_min_churn_age_ms,
            second_copies=settings.modelmesh_second_copies,
            fill_free_space=settings.modelmesh_fill_free_space,
            constraints=self._inputs.type_constraints,
            refuse_pinned=bool(settings.triton_capacity_bytes),
        )

    def _storage(self) -> Storage:
        settings = self._settings
        return Storage(
            StorageOptions(
                model_root=settings.model_root,
                config_directory=settings.storage_config_dir,
                pvc_root=settings.pvc_root,
                cache=os.fspath(self._beside_repository("registered")),
            )
        )

    def _beside_repository(self, kind: str) -> Path:
        """Downloads lie on the file system of the model repository, so that they can be linked into it."""
        remote = next(iter(self._settings.triton_repository), "").partition("=")[0]
        return Path(remote, f".{kind}", self._deployment) if remote else self._state.path / kind


def connected_view(plane: ControlPlane) -> RoutesView:
    """The view of the router in this process; snapshots and losses go one way, what drained the other."""
    view = RoutesView()
    plane.leases.enlist(view.router, permanent=True)
    plane.publisher.subscribe(view.publish)
    plane.on_lost(view.lose)
    view.connect(plane.drained)
    return view


def meters(
    plane: ControlPlane,
    access: RegistryAccess,
    serving: ServingMetrics,
    mesh_metrics: MeshMetrics,
    mesh: ModelMesh | None,
    denied: Collector,
) -> Meters:
    """The metrics; ModelMesh's are shown where ModelMesh is on. `denied` counts denied calls."""
    shown = [denied, mesh_metrics] if mesh is not None else [denied]
    return Meters(Metrics(StateCollector(plane, access.recorder, access.registry), *shown), serving, mesh_metrics)
