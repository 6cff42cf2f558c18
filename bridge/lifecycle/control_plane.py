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

from bridge.errors import BridgeError, NotFound
from bridge.lifecycle.awaited import AwaitedVersions
from bridge.lifecycle.configuration import PLATFORM
from bridge.lifecycle.contents import VersionContents
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.held import HeldContents
from bridge.lifecycle.leases import RouterLeases
from bridge.lifecycle.loader import Loader, Wish
from bridge.lifecycle.model import ModelManager
from bridge.lifecycle.model_cache import ModelCache, NoModelCache
from bridge.lifecycle.observations import Observations
from bridge.lifecycle.publisher import Publisher
from bridge.lifecycle.request_logging import logging_route
from bridge.lifecycle.servable import Placeable, Servable
from bridge.lifecycle.source import ModelSource, Recall, recall_nothing
from bridge.lifecycle.source_config import SourceRules
from bridge.lifecycle.transition import Rule, availability_preserving
from bridge.registry.records import Model, ModelSpec
from bridge.registry.rollback_records import PinnedContent
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
        downloads: Downloads,
        transition: Rule = availability_preserving,
    ) -> None:
        self.fleet = fleet
        self.leases = leases
        self.publisher = Publisher(self._routes, fleet.routes)
        self._deployment = deployment
        self._loader = loader(fleet)
        self._observations = observations
        self._rules = rules
        self._executor = executor
        self._downloads = downloads
        self._transition = transition
        self._managers: dict[str, ModelManager] = {}
        self._sources: dict[str, ModelSource] = {}
        self._source_tasks: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_trial: set[str] = set()
        self._progress = asyncio.Event()
        self._on_lost: list[Callable[[str, str], None]] = []
        self._served_before: Mapping[str, Collection[int]] = {}
        self._recall: Recall = recall_nothing
        self._stale_problems: dict[str, Collection[str]] = {}
        self._cache: ModelCache = NoModelCache()
        self._spared: Callable[[str], bool] = lambda triton_name: False
        self._held = HeldContents()
        self._rehearsing = False
        fleet.keep_if(self._may_be_wanted)

    # What the registry wants

    def watch_by(self, rules: SourceRules) -> None:
        """Watch base paths by these rules from the next `apply` on."""
        self._rules = rules

    def remember_by(self, recall: Recall) -> None:
        """Say before the first `apply` how to find what served before and can be served without a base path."""
        self._recall = recall

    def know_problems(self, stale: Mapping[str, Collection[str]]) -> None:
        """Say before the first `apply` which problems the process before this one left, paths by model."""
        self._stale_problems = dict(stale)

    def expect(self, served_before: Mapping[str, Collection[int]]) -> None:
        """Say before the first `apply` which versions served, by model, when the process before this one was killed."""
        self._served_before = served_before

    def spare(self, spared: Callable[[str], bool]) -> None:
        """Say which Triton names nobody may clean up although nothing here wants them."""
        self._spared = spared

    def host(self, cache: ModelCache) -> None:
        """Serve registered models, which are loaded on demand, as `cache` says."""
        self._cache = cache
        self.fleet.hold_if(cache.holds)
        self.publisher.add_modelmesh(cache.registered_routes, cache.vmodel_routes)

    def keep(self, contents: VersionContents) -> None:
        """Say before the first `apply` who knows the contents of versions, and keeps them."""
        self._held.keeper = contents

    def apply(self, records: Iterable[Model], *, labels_at_once: bool = False) -> None:
        """Serve exactly these models. Those that left are unloaded; their statuses stay, as in TF Serving.

        With `labels_at_once` labels point at their versions whether those serve or not: they were checked before.
        """
        wanted = {record.name: record for record in records}
        for name in self._sources.keys() - wanted.keys() - self._on_trial:
            self._drop(name)
        for name, record in wanted.items():
            self._adopt(name, record)
            self._managers[name].set_labels(record.labels, at_once=labels_at_once)
        self._end_stale_problems()
        self.publisher.configured = True
        self.publisher.publish_soon()
        self.spawn(
            self._downloads.forget_other_bases([source.base_path for source in self._sources.values()]),
            "removal of old downloads",
        )

    # Trials: models that serve before they are wanted for good

    def begin_trial(self, models: Iterable[ModelSpec]) -> None:
        """Load models that are not configured yet; `apply` leaves them alone until `end_trial`."""
        for model in models:
            self._on_trial.add(model.name)
            self._adopt(model.name, model)

    def end_trial(self) -> None:
        self._on_trial.clear()

    def abandon(self, name: str, error: BridgeError) -> None:
        """Stop loading and serving a model on trial; its versions end in `error`."""
        if name in self._sources:
            self._managers[name].give_up(error)
            self._drop(name)

    def rehearse(self, name: str, contents: Iterable[PinnedContent]) -> None:
        """Load kept contents of a model beside what it serves, out of any request's reach; nothing ends a rehearsal."""
        self._rehearsing = True
        try:
            self._manager(name).rehearse(self._held.directories(name, contents))
        finally:
            self._rehearsing = False

    def rehearsal(self, name: str) -> VersionStatus | None:
        """`ModelManager.rehearsal` of a model."""
        return self._managers[name].rehearsal()

    def load_error(self, name: str, version: int) -> BridgeError | None:
        """The error of the last failed try to load a version that is being loaded."""
        return self._loader.last_error(name, version)

    def tell_all(self) -> None:
        """Have every present state of a version observed once more: somebody else writes them down from now on."""
        for manager in self._managers.values():
            manager.tell_all()
        for name, source in self._sources.items():
            for path, sentence in source.problems.items():
                self._observations.problem(name, path, sentence)

    def progress(self) -> asyncio.Event:
        """Set at the next change of a version's state, or after the next look at a base path."""
        if self._progress.is_set():
            self._progress = asyncio.Event()
        return self._progress

    def verdict(self, name: str) -> BridgeError | None:
        """What became of a model that was just configured: OK once it serves, its error, or None while undecided."""
        source = self._sources[name]
        if source.missing and source.held is None:
            return NotFound(f"Could not find base path {source.base_path} for servable {name}")
        status = self._managers[name].verdict()
        return BridgeError(status.message, status.code) if status else None

    def verdicts(self) -> Mapping[str, VersionStatus | None]:
        """`ModelManager.verdict` of each configured model, those left out whose base path offers nothing to load."""
        idle = {name for name, source in self._sources.items() if source.looked and self._managers[name].empty}
        return {name: self._managers[name].verdict() for name in self._sources.keys() - idle}

    def last_error(self, name: str) -> BridgeError | None:
        """The error of the last failed try to load the model's highest version."""
        return self._loader.last_error(name, self.highest_version(name))

    def highest_version(self, name: str) -> int:
        """The highest version that is wanted of a model, 0 for none."""
        return self._managers[name].highest_wanted()

    def on_lost(self, lose: Callable[[str, str], None]) -> None:
        """Tell `lose` (Triton name, instance) of each copy whose process is gone."""
        self._on_lost.append(lose)

    def start(self) -> None:
        """Begin to look after the instances."""
        for controller in self.fleet.controllers.values():
            self.spawn(controller.run(), f"instance {controller.name}")

    async def stop(self) -> None:
        """End every task; nothing is unloaded, since a restart finds it again."""
        self._held.keeper.stop()
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
        while True:
            progress = self.progress()
            if self.settled:
                return
            await progress.wait()

    # Served: what a configuration is checked against

    def platform(self, model: str) -> str | None:
        """The platform of a configured model, None for any other."""
        return PLATFORM if model in self._sources else None

    def label(self, model: str, label: str) -> int | None:
        """The version that a label points at now."""
        manager = self._managers.get(model)
        return manager.route().labels.get(label) if manager else None

    def is_available(self, model: str, version: int) -> bool:
        manager = self._managers.get(model)
        return manager is not None and version in manager.ready_versions()

    def problems(self) -> Mapping[str, Mapping[str, str]]:
        """Sentences about sources by model and path."""
        return {name: source.problems for name, source in self._sources.items() if source.problems}

    def needs(self, model: str, version: int) -> bool:
        """Whether a version loads, serves, unloads, or is held by a rollback."""
        manager, source = self._managers.get(model), self._sources.get(model)
        managed = manager is not None and version in manager.versions()
        return managed or (source is not None and version in (source.held or ()))

    def statuses(self, model: str) -> Mapping[int, VersionStatus]:
        manager = self._managers.get(model)
        return manager.statuses() if manager else {}

    # Control: what the request path asks

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        self.fleet.suspect(triton_name, instance, reason)

    def drained(self, router: str, epoch: int) -> None:
        self.leases.drained(router, epoch)

    def load_on_demand(self, model_id: str) -> None:
        self._cache.load_on_demand(model_id)

    def used(self, model_id: str, count: int) -> None:
        self._cache.used(model_id, count)

    # Surroundings: what a model's manager asks

    async def reserve(self, model: str, version: int, path: str) -> None:
        await self._loader.reserve(model, version, path)

    async def load(self, model: str, version: int, path: str, wish: Wish) -> Servable:
        return self._held.loaded(await self._loader.load(model, version, path, wish), path)

    def serve(self, servable: Servable) -> None:
        self._observations.warnings(servable)
        self.fleet.pin(servable)
        stored, path = self.fleet.stored(servable.triton_name), self._held.came_from(servable)
        self.spawn(self._held.keeper.loaded(servable, stored, path), f"reading of the content of {servable}")

    async def retire(self, servable: Servable, epoch: int) -> None:
        await self.leases.wait_drained(epoch)
        instances = self.fleet.instances_with(servable.triton_name)
        await self.fleet.unload(servable)
        self._observations.unloaded(servable, instances)
        self.spawn(self._held.keeper.retired(servable), f"keeping of the content of {servable}")
        await self._loader.release(servable)

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        return self.fleet.instances_with(triton_name)

    def publish(self) -> int:
        return self.publisher.publish()

    def publish_soon(self) -> None:
        self.publisher.publish_soon()

    def observed(self, model: str, status: VersionStatus, path: str, servable: Servable | None) -> None:
        self._progress.set()
        source = self._sources.get(model)
        asked = source is None or source.asked or self._rehearsing
        self._observations.version(model, status, self._held.origin(path), servable, asked=asked)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    # InstanceListener: what the instances' controllers tell

    def copies_changed(self, triton_names: Collection[str]) -> None:
        for manager in self._managers.values():
            manager.refresh(triton_names)
        self.publisher.publish_soon()

    def copy_loaded(self, instance: str, servable: Placeable) -> None:
        self._observations.copy_loaded(instance, servable)
        name = names.parse(servable.triton_name)
        stored = self.fleet.stored(servable.triton_name) if name is not None and name.registered else None
        if name is not None and stored is not None and isinstance(servable, Servable):
            work = self._held.keeper.registered(servable, name.version, stored)
            self.spawn(work, f"reading of the content of {servable}")

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None:
        for lose in self._on_lost:
            lose(triton_name, instance)
        self._cache.copy_lost(instance, triton_name)
        self._observations.copy_lost(instance, triton_name, reason)

    def instance_changed(self, instance: str, up: bool, reason: str) -> None:
        self.fleet.instance_changed()
        self._cache.instance_changed(instance, up)
        self._observations.instance(instance, up, reason)
        self.publisher.publish_soon()

    def _routes(self) -> Iterable[ModelRoute]:
        return [manager.route() for manager in self._managers.values()]

    def _adopt(self, name: str, record: Model | ModelSpec) -> None:
        manager = self._manager(name)
        manager.configured = True
        manager.set_logging(logging_route(record.logging))
        policy = from_json(record.policy)
        held = self._held.of(record)
        source = self._sources.get(name)
        if source is not None:
            source.change(record.base_path, policy, self._rules, held)
            return
        source = ModelSource(
            manager,
            record.base_path,
            policy,
            self._rules,
            self._executor,
            self._downloads,
            on_problem=self._observations.problem,
            on_look=lambda: self._progress.set(),
            recall=recall_nothing if self.publisher.configured else self._recall,
            stale=self._stale_problems.pop(name, ()),
            watch=self._held.keeper.changed,
            held=held,
        )
        self._sources[name] = source
        source.aspire_held()
        self._source_tasks[name] = asyncio.create_task(source.run(), name=f"source {name}")
        self._source_tasks[name].add_done_callback(self._finished)

    def _manager(self, name: str) -> ModelManager:
        if name not in self._managers:
            self._managers[name] = ModelManager(name, self, self._awaited(name), self._transition)
            self._managers[name].configured = False
        return self._managers[name]

    def _awaited(self, name: str) -> AwaitedVersions:
        if self.publisher.configured:
            return AwaitedVersions()
        return AwaitedVersions(self._served_before.get(name, ()), at_start=True)

    def _end_stale_problems(self) -> None:
        """Those of models that are not configured any more."""
        for name, paths in self._stale_problems.items():
            for path in paths:
                self._observations.problem(name, path, None)
        self._stale_problems.clear()

    def _drop(self, name: str) -> None:
        self._sources.pop(name).end_problems()
        self._source_tasks.pop(name).cancel()
        manager = self._managers[name]
        manager.configured = False
        manager.set_labels({})
        manager.aspire(())

    def _may_be_wanted(self, triton_name: str) -> bool:
        """Names of versions in work, and of models whose base path was not read yet: nobody may clean these up."""
        if self._spared(triton_name) or any(triton_name in item.triton_names() for item in self._managers.values()):
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
