"""The control plane: turns what the registry wants into loaded versions and published routes.

It owns the models' managers, their sources and the instances' controllers, all on one event loop. The request path sees
only the snapshots that it publishes and the `Control` interface that it implements.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.leases import RouterLeases
from bridge.lifecycle.loader import Loader, Wish
from bridge.lifecycle.model import ModelManager
from bridge.lifecycle.observations import Observations
from bridge.lifecycle.publisher import Publisher
from bridge.lifecycle.servable import Servable
from bridge.lifecycle.source import ModelSource, SourceRules
from bridge.registry.records import Model
from bridge.serving.routes import ModelRoute, VersionStatus
from model_repo_sync import names
from model_repo_sync.policy import from_json

logger = logging.getLogger(__name__)


class ControlPlane:
    """Composition of the lifecycle. `loader` and `fleet` do the work, this class connects them to models."""

    def __init__(
        self,
        deployment: str,
        fleet: Fleet,
        loader: Callable[[Fleet], Loader],
        leases: RouterLeases,
        observations: Observations,
        rules: SourceRules,
        executor: Executor,
    ) -> None:
        self.fleet = fleet
        self.leases = leases
        self.publisher = Publisher(self._routes, fleet.routes)
        self._deployment = deployment
        self._loader = loader(fleet)
        self._observations = observations
        self._rules = rules
        self._executor = executor
        self._managers: dict[str, ModelManager] = {}
        self._sources: dict[str, ModelSource] = {}
        self._source_tasks: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress = asyncio.Event()
        self._on_lost: list[Callable[[str, str], None]] = []
        fleet.keep_if(self._may_be_wanted)

    # What the registry wants

    def apply(self, records: Iterable[Model]) -> None:
        """Serve exactly these models. Those that left are unloaded; their statuses stay, as in TF Serving."""
        wanted = {record.name: record for record in records}
        for name in self._sources.keys() - wanted.keys():
            self._drop(name)
        for name, record in wanted.items():
            self._adopt(name, record)
        self.publisher.configured = True
        self.publisher.publish_soon()

    def on_lost(self, lose: Callable[[str, str], None]) -> None:
        """Tell `lose` (Triton name, instance) of each copy whose process is gone."""
        self._on_lost.append(lose)

    def start(self) -> None:
        """Begin to look after the instances."""
        for controller in self.fleet.controllers.values():
            self.spawn(controller.run(), f"instance {controller.name}")

    async def stop(self) -> None:
        """End every task; nothing is unloaded, since a restart finds it again."""
        tasks = [*self._source_tasks.values(), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(controller.close() for controller in self.fleet.controllers.values()))

    @property
    def settled(self) -> bool:
        """Every model serves, ended in error, or has a source that offers nothing."""
        return not any(True for _ in self.unsettled())

    def unsettled(self) -> Iterator[str]:
        """Why a model is not decided yet, a sentence each."""
        for name, source in self._sources.items():
            manager = self._managers[name]
            if not source.looked:
                yield f"the base path of model {name} was not read yet"
            elif not manager.settled and not (manager.empty and source.problems):
                yield f"model {name} is loading"

    async def wait_settled(self) -> None:
        """Return once `settled` holds."""
        while not self.settled:
            await self._progress.wait()
            self._progress.clear()

    def problems(self) -> Mapping[str, Mapping[str, str]]:
        """Sentences about sources by model and path."""
        return {name: source.problems for name, source in self._sources.items() if source.problems}

    def statuses(self, model: str) -> Mapping[int, VersionStatus]:
        manager = self._managers.get(model)
        return manager.statuses() if manager else {}

    # Control: what the request path asks

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        self.fleet.suspect(triton_name, instance, reason)

    def drained(self, router: str, epoch: int) -> None:
        self.leases.drained(router, epoch)

    # Surroundings: what a model's manager asks

    async def load(self, model: str, version: int, path: str, wish: Wish) -> Servable:
        return await self._loader.load(model, version, path, wish)

    def serve(self, servable: Servable) -> None:
        self._observations.warnings(servable)
        self.fleet.pin(servable)

    async def retire(self, servable: Servable, epoch: int) -> None:
        await self.leases.wait_drained(epoch)
        instances = self.fleet.instances_with(servable.triton_name)
        await self.fleet.unload(servable)
        self._observations.unloaded(servable, instances)

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        return self.fleet.instances_with(triton_name)

    def publish(self) -> int:
        return self.publisher.publish()

    def publish_soon(self) -> None:
        self.publisher.publish_soon()

    def observed(self, model: str, status: VersionStatus, path: str, servable: Servable | None) -> None:
        self._progress.set()
        self._observations.version(model, status, path, servable)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    # InstanceListener: what the instances' controllers tell

    def copies_changed(self, triton_names: Collection[str]) -> None:
        for manager in self._managers.values():
            manager.refresh(triton_names)
        self.publisher.publish_soon()

    def copy_loaded(self, instance: str, servable: Servable) -> None:
        self._observations.copy_loaded(instance, servable)

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None:
        for lose in self._on_lost:
            lose(triton_name, instance)
        self._observations.copy_lost(instance, triton_name, reason)

    def instance_changed(self, instance: str, up: bool, reason: str) -> None:
        self.fleet.instance_changed()
        self._observations.instance(instance, up, reason)
        self.publisher.publish_soon()

    def _routes(self) -> Iterable[ModelRoute]:
        return [manager.route() for manager in self._managers.values()]

    def _adopt(self, name: str, record: Model) -> None:
        manager = self._managers.setdefault(name, ModelManager(name, self))
        manager.configured = True
        manager.set_labels(record.labels)
        policy = from_json(record.policy)
        source = self._sources.get(name)
        if source is not None:
            source.change(record.base_path, policy)
            return
        source = ModelSource(
            manager,
            record.base_path,
            policy,
            self._rules,
            self._executor,
            on_problem=self._observations.problem,
            on_look=self._progress.set,
        )
        self._sources[name] = source
        self._source_tasks[name] = asyncio.create_task(source.run(), name=f"source {name}")
        self._source_tasks[name].add_done_callback(self._finished)

    def _drop(self, name: str) -> None:
        del self._sources[name]
        self._source_tasks.pop(name).cancel()
        manager = self._managers[name]
        manager.configured = False
        manager.set_labels({})
        manager.aspire(())

    def _may_be_wanted(self, triton_name: str) -> bool:
        """Names of versions in work, and of models whose base path was not read yet: nobody may clean these up."""
        if any(triton_name in manager.triton_names() for manager in self._managers.values()):
            return True
        return any(
            triton_name.startswith(names.servable_name(self._deployment, name, 0)[:-1])
            for name, source in self._sources.items()
            if not source.settled
        )

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
