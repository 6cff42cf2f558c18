"""One term of deciding: the control plane with its models, instances and configuration, built and started together.

A bridge that is alone decides from its start to its end. Of several on one database the leader does, so a process may
have many terms; what clients are connected to stays.
"""

from __future__ import annotations

from bridge.agents.mirrors import Mirrors
from bridge.control_parts import ControlParts
from bridge.inputs import Inputs
from bridge.instances import Child, Instances
from bridge.lifecycle.configurator import Configurator
from bridge.lifecycle.leases import permitted
from bridge.lifecycle.live import LiveTracker
from bridge.lifecycle.operations import Operations
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.modelmesh.operations import ModelMeshOperations
from bridge.parts import Parts
from bridge.registry_access import RegistryAccess
from bridge.tfserving.metrics import ServingMetrics
from bridge.triton.embedded import EmbeddedTriton
from bridge.triton.instance import Permission


class Term:
    """Builds everything; nothing acts before `start`. `metrics` and `mesh_metrics` hear of loads.

    `child` says whose the child is among several. `permission` returns while this process may decide.
    """

    def __init__(
        self,
        inputs: Inputs,
        control: ControlParts,
        access: RegistryAccess,
        mirrors: Mirrors | None,
        metrics: ServingMetrics,
        mesh_metrics: MeshMetrics,
        *,
        child: Child | None = None,
        permission: Permission = permitted,
    ) -> None:
        self._access = access
        self.live = LiveTracker(access.registry, access.recorder)
        downloads = control.downloads()
        self._rollback_parts = control.rollback_parts(downloads)
        self.plane = control.control_plane(metrics, downloads, self._rollback_parts.contents, permission)
        self.mesh = control.model_mesh(self.plane, mesh_metrics)
        if self.mesh is not None:
            self.plane.host(self.mesh)
        self.instances = Instances(
            inputs.settings,
            self.plane,
            access.observations,
            access.registry.deployment_id,
            control.executors.loads,
            control.warm_up(metrics),
            mirrors,
            child=child,
            permission=permission,
        )
        self.configurator = Configurator(inputs.settings, access.registry, access.thread, self.plane)

    def add_instances(self, triton: EmbeddedTriton | None, parts: Parts) -> None:
        """Put the child, or without one the remote instances, under control. Raises FailedPrecondition."""
        if triton is None:
            self.instances.add_remote()
        else:
            parts.spawn(self.instances.add_embedded(triton).run(), "embedded Triton")

    async def start(self, parts: Parts, *, drive: bool = True) -> None:
        """Begin to look after models and instances, and make the configuration of this start the wanted one.

        Without `drive` another bridge drives the transitions of vmodels. `parts` end it. Raises BridgeError.
        """
        await self.live.learn(self._access.thread)
        if self.mesh is not None:
            await self.mesh.start(self.instances.cache_instances(), drive=drive)
            parts.on_close(self.mesh.close)
        self.plane.start()
        parts.on_close(self.plane.stop)
        await self.configurator.start()
        parts.spawn(self.configurator.poll(), "configuration file")

    def operations(self) -> Operations:
        """What an operator may ask and change."""
        manager = self.mesh.manager if self.mesh is not None else None
        rollback = self._rollback_parts.rollback(self.plane, self.configurator, manager)
        return Operations(self._access.registry, self._access.thread, self.plane, rollback)

    def modelmesh_operations(self) -> ModelMeshOperations:
        """What an operator may ask and change of registered models and vmodels."""
        manager = self.mesh.manager if self.mesh is not None else None
        return ModelMeshOperations(self._access.registry, self._access.thread, manager)
