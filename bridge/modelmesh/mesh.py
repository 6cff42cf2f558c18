"""ModelMesh as a part of the server: everything that keeps registered models and vmodels, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor

from bridge.lifecycle.cache_instance import ControlledInstance
from bridge.lifecycle.leases import RouterLeases
from bridge.lifecycle.observations import Observations
from bridge.lifecycle.publisher import Publisher
from bridge.lifecycle.recorder import Recorder
from bridge.modelmesh.catalog import ModelCatalog
from bridge.modelmesh.demands import Demands
from bridge.modelmesh.last_uses import LastUses
from bridge.modelmesh.ledger import Ledger
from bridge.modelmesh.manager import ModelMeshManager
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.modelmesh.observer import PlacementObservers, RecordingObserver
from bridge.modelmesh.pinned_room import PinnedRoom
from bridge.modelmesh.registration import Prepare, Registration
from bridge.modelmesh.routing import Routing, Withdrawals
from bridge.modelmesh.transitions import Transitions
from bridge.modelmesh.vmodels import VModels
from bridge.placement.clock import SystemClock
from bridge.placement.placement import Placement
from bridge.placement.settings import PlacementSettings
from bridge.placement.tasks import Tasks
from bridge.registry.records import RegisteredModel
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import RegisteredRoute, VModelRoute


class ModelMesh:
    """The ModelCache of a control plane. `prepare` reads models' files on `executor`."""

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        recorder: Recorder,
        observations: Observations,
        publisher: Publisher,
        leases: RouterLeases,
        prepare: Prepare,
        executor: Executor,
        settings: PlacementSettings,
        metrics: MeshMetrics,
    ) -> None:
        def enroll(model: RegisteredModel) -> Registration:
            return Registration(model, registry.deployment_id, prepare, executor)

        clock = SystemClock()
        self._instances: dict[str, ControlledInstance] = {}
        self._publisher = publisher
        self._withdrawals = Withdrawals(publisher, leases)
        self._catalog = ModelCatalog(registry, recorder, enroll, clock)
        self._vmodels = VModels()
        observer = PlacementObservers(RecordingObserver(observations), metrics)
        self.placement = Placement(self._catalog, self._withdrawals, observer, clock, settings)
        metrics.watch(self.placement, self._catalog.ids)
        self._room = PinnedRoom(self.placement, executor)
        self._demands = Demands(self.placement, clock, self._withdrawals.changed, metrics.missed)
        self._routing = Routing(self._catalog, self._vmodels, self.placement, self._demands, self._withdrawals)
        self._ledger = Ledger(
            registry,
            thread,
            self._catalog,
            self._vmodels,
            self.placement,
            registered=self._withdrawals.changed,
            removed=self._removed,
        )
        self._transitions = Transitions(self._ledger, self._catalog, self._vmodels, self.placement)
        self._last_uses = LastUses(registry, recorder, self._catalog, self.placement, clock)
        self._tasks = Tasks()
        self.manager = ModelMeshManager(self._ledger, self._catalog, self._vmodels, self.placement, clock)

    async def start(self, instances: Iterable[ControlledInstance], *, drive: bool = True) -> None:
        """Read what is registered and go on with the transitions that there are, with models on `instances`.

        Without `drive` another bridge on the same database drives them.
        """
        await self._ledger.read()
        for instance in instances:
            self._instances[instance.name] = instance
            self.placement.add_instance(instance)
            instance.share(self._room)
        self._vmodels.listen(lambda id: self._publisher.publish_soon())
        self._publisher.publish_soon()
        self._transitions.start(drive=drive)
        self._tasks.spawn(self.placement.run(), "placement")
        self._tasks.spawn(self._last_uses.run(), "times of last use")

    async def refresh(self) -> None:
        """Go on from what the registry says now: another bridge may have changed it."""
        await self._ledger.refresh()

    def drive(self) -> None:
        """Drive transitions from now on."""
        self._transitions.drive()

    async def rest(self) -> None:
        """Leave transitions to another bridge."""
        await self._transitions.rest()

    async def close(self) -> None:
        """End all work; nothing is unloaded."""
        await self._transitions.close()
        await self._tasks.close()
        await self.placement.close()
        self._last_uses.write()

    # ModelCache

    def registered_routes(self) -> Mapping[str, RegisteredRoute]:
        return self._routing.registered()

    def vmodel_routes(self) -> Mapping[str, VModelRoute]:
        return self._routing.vmodels()

    def load_on_demand(self, model_id: str) -> None:
        self._demands.demand(model_id)

    def used(self, model_id: str, count: int) -> None:
        self.placement.used(model_id, count)

    def holds(self, triton_name: str, instance: str) -> bool:
        return instance in self._instances and triton_name in self._instances[instance].held

    def copy_lost(self, instance: str, triton_name: str) -> None:
        if instance in self._instances:
            self._instances[instance].copy_lost(triton_name)
        registration = self._catalog.by_triton_name(triton_name)
        if registration is not None:
            self.placement.copy_lost(registration.model.id, instance)

    def instance_changed(self, instance: str, up: bool) -> None:
        if instance not in self._instances:
            return
        if up:
            self._restore(self._instances[instance])
            self.placement.instance_back(instance)
        else:
            self._instances[instance].lost()
            self.placement.instance_lost(instance)

    def _restore(self, instance: ControlledInstance) -> None:
        """Go on with the copies that outlived an earlier process of ours, those first that were used last."""
        known = (self._catalog.by_triton_name(name) for name in instance.found)
        found = sorted((one for one in known if one), key=lambda one: -self._catalog.last_used(one.model.id))
        for registration in found:
            if self.placement.restore(instance.name, registration.model.id):
                instance.keep(registration.triton_name)

    def _removed(self, model_id: str) -> None:
        self.placement.remove(model_id)
        self._demands.forget(model_id)
        self._withdrawals.changed(model_id)
