"""The versions of one model: their states as TF Serving shows them, and the order in which they come and go."""

from __future__ import annotations

import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from bridge.errors import BridgeError, Code
from bridge.lifecycle.awaited import AwaitedVersions
from bridge.lifecycle.loader import Wish
from bridge.lifecycle.servable import Servable
from bridge.lifecycle.transition import Candidate, Phase, Rule, Verb, availability_preserving
from bridge.serving.routes import LoggingRoute, ModelRoute, ServableRoute, VersionState, VersionStatus
from model_repo_sync.sources import VersionDirectory

logger = logging.getLogger(__name__)


class Surroundings(Protocol):
    """What a model's manager needs of the control plane."""

    async def reserve(self, model: str, version: int, path: str) -> None:
        """Make sure that a load can begin. Raises BridgeError when the version ends in error before it loads."""

    async def load(self, model: str, version: int, path: str, wish: Wish) -> Servable:
        """Load a first copy. Raises BridgeError when the version ends in error."""

    def serve(self, servable: Servable) -> None:
        """Keep copies of a loaded version on the instances from now on."""

    async def retire(self, servable: Servable, epoch: int) -> None:
        """Wait until no router uses what epoch `epoch` dropped, then unload every copy."""

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        """Instances that hold a loaded copy."""

    def publish(self) -> int:
        """Publish a snapshot now; its epoch."""

    def publish_soon(self) -> None: ...

    def observed(self, model: str, status: VersionStatus, path: str, servable: Servable | None) -> None:
        """A version changed its state."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` as a task that the control plane owns."""


@dataclass
class _Managed:
    version: int
    path: str
    aspired: bool = True
    phase: Phase = Phase.NEW
    servable: Servable | None = None
    wish: Wish = field(default_factory=Wish)
    verdict: BridgeError | None = None
    hidden: bool = False
    """Loaded by a rehearsal, and never asked for since: no request reaches it."""


class ModelManager:
    """State machine of one model. Used on the control plane's event loop only."""

    def __init__(
        self,
        name: str,
        surroundings: Surroundings,
        awaited: AwaitedVersions | None = None,
        rule: Rule = availability_preserving,
    ) -> None:
        self.name = name
        self._rule = rule
        self._awaited = awaited or AwaitedVersions()
        self.configured = True
        self._surroundings = surroundings
        self._managed: dict[int, _Managed] = {}
        self._asked: Mapping[int, VersionDirectory] = MappingProxyType({})
        self._rehearsed: Mapping[int, VersionDirectory] = MappingProxyType({})
        self._postponed: dict[int, VersionDirectory] = {}
        self._statuses: dict[int, VersionStatus] = {}
        self._wanted_labels: Mapping[str, int] = MappingProxyType({})
        self._assigned: dict[str, int] = {}
        self._logging: LoggingRoute | None = None
        self._route: ModelRoute | None = None

    def aspire(self, directories: Sequence[VersionDirectory]) -> None:
        """Serve exactly these versions. One that is just unloading comes back after its end."""
        self._asked = {item.version: item for item in directories}
        if self._awaited.found(self._asked):
            self._changed()
        for version in self._asked.keys() & self._managed.keys():
            self._show(self._managed[version])
        self._want()

    def rehearse(self, directories: Sequence[VersionDirectory]) -> None:
        """Load these as well, without a request for those that nobody asks for; none of them ends the rehearsal."""
        self._rehearsed = {item.version: item for item in directories}
        self._want()

    def rehearsal(self) -> VersionStatus | None:
        """The state of a rehearsed version that ended in error, or of the highest one once all serve; None before."""
        phases = {version: self._managed[version].phase for version in self._rehearsed if version in self._managed}
        failed = [version for version, phase in phases.items() if phase is Phase.ERROR]
        if failed:
            return self._statuses[max(failed)]
        ready = len(phases) == len(self._rehearsed) and all(phase is Phase.READY for phase in phases.values())
        return self._statuses[max(phases)] if ready and phases else None

    def _show(self, managed: _Managed) -> None:
        if managed.hidden:
            managed.hidden = False
            self._changed()

    def _want(self) -> None:
        wanted = {**self._rehearsed, **self._asked}
        self._postponed = {}
        for version, managed in list(self._managed.items()):
            self._set_aspired(managed, version in wanted)
        for version, item in wanted.items():
            known = self._managed.get(version)
            if known is None:
                self._discover(item)
            elif known.phase is Phase.UNLOADING:
                self._postponed[version] = item
        self.advance()

    def unreadable(self) -> None:
        """The base path cannot be read: what serves stays, and nobody waits for what was never seen to serve."""
        if self._awaited.unread and self._awaited.found(None):
            self._changed()

    def set_labels(self, labels: Mapping[str, int], *, at_once: bool = False) -> None:
        """The labels wanted for this model. Each takes effect once its version is AVAILABLE, or `at_once`."""
        self._wanted_labels = MappingProxyType(dict(labels))
        if at_once:
            self._assigned = dict(labels)
        self._changed()

    def set_logging(self, route: LoggingRoute | None) -> None:
        """Which requests are logged from now on."""
        self._logging = route
        self._changed()

    def give_up(self, error: BridgeError) -> None:
        """Stop every load; those versions end in `error`, whatever their loads come to."""
        for managed in self._managed.values():
            if managed.phase in (Phase.NEW, Phase.LOADING):
                managed.verdict = error
        self.aspire(())

    def verdict(self) -> VersionStatus | None:
        """The state of the highest version that is AVAILABLE or ended, as TF Serving waits for it; None for none."""
        for version in sorted(self._managed, reverse=True):
            if self._managed[version].phase in (Phase.READY, Phase.ERROR):
                return self._statuses[version]
        return None

    def highest_wanted(self) -> int:
        return max((item.version for item in self._managed.values() if item.aspired), default=0)

    def advance(self) -> None:
        """Start every step that the transition rule asks for now."""
        while (action := self._rule(self._candidates())) is not None:
            managed = self._managed[action.version]
            if action.verb is Verb.LOAD:
                managed.phase = Phase.LOADING
                self._surroundings.spawn(self._load(managed), f"load {self.name} {managed.version}")
            else:
                self._begin_unload(managed)

    def _begin_unload(self, managed: _Managed) -> None:
        managed.phase = Phase.UNLOADING
        self._surroundings.spawn(self._unload(managed), f"unload {self.name} {managed.version}")

    def route(self) -> ModelRoute:
        """This model's part of the snapshot, built anew only after a change."""
        if self._route is None:
            self._assign_labels()
            self._route = ModelRoute(
                name=self.name,
                servables=self._servable_routes(),
                labels=MappingProxyType(dict(self._assigned)),
                statuses=tuple(self._statuses[version] for version in sorted(self._statuses, reverse=True)),
                configured=self.configured,
                logging=self._logging,
                awaited=self._awaited.versions(self._loading()),
                unread=self._awaited.unread,
            )
        return self._route

    def refresh(self, triton_names: Collection[str]) -> None:
        """Copies with these names came or went: rebuild the route at the next publication if one is ours."""
        if not self.triton_names().isdisjoint(triton_names):
            self._route = None

    def statuses(self) -> Mapping[int, VersionStatus]:
        """The states of all versions of this process's life."""
        return self._statuses

    def ready_versions(self) -> frozenset[int]:
        """Versions that requests can reach."""
        ready = (item for item in self._managed.values() if item.phase is Phase.READY)
        return frozenset(item.version for item in ready if not item.hidden)

    def tell_all(self) -> None:
        """Tell the states that versions have now as if they were new."""
        for managed in self._managed.values():
            status = self._statuses[managed.version]
            self._surroundings.observed(self.name, status, managed.path, managed.servable)

    def versions(self) -> Collection[int]:
        """Versions that load, serve or unload, or ended in error while they are wanted."""
        return self._managed.keys()

    def decided_versions(self) -> frozenset[int]:
        """Versions that came to serve or ended in this process's life."""
        ended = (VersionState.AVAILABLE, VersionState.UNLOADING, VersionState.END)
        return frozenset(version for version, status in self._statuses.items() if status.state in ended)

    def triton_names(self) -> frozenset[str]:
        """Triton names of all versions that are being loaded, served or unloaded."""
        return frozenset(item.servable.triton_name for item in self._managed.values() if item.servable)

    @property
    def empty(self) -> bool:
        """No version is left that loads, serves or unloads."""
        return not self._managed

    @property
    def settled(self) -> bool:
        """A version serves, or every one that is wanted ended in error."""
        phases = [item.phase for item in self._managed.values() if item.aspired]
        return Phase.READY in phases or (bool(phases) and all(phase is Phase.ERROR for phase in phases))

    def _set_aspired(self, managed: _Managed, aspired: bool) -> None:
        managed.aspired = aspired
        if aspired:
            managed.wish.renew()
            return
        managed.wish.withdraw()
        if managed.phase is Phase.NEW:
            error = managed.verdict or BridgeError("", Code.OK)
            self._observe(managed, VersionState.END, error.code, error.message)
        if managed.phase in (Phase.NEW, Phase.ERROR):
            del self._managed[managed.version]
        elif managed.hidden and managed.phase is Phase.READY:
            # It serves nobody, so no other version has to take its place first.
            self._begin_unload(managed)

    def _candidates(self) -> list[Candidate]:
        """A hidden version takes nobody's place yet."""
        return [
            Candidate(item.version, Phase.LOADING if self._is_hidden(item) else item.phase, item.aspired)
            for item in self._managed.values()
        ]

    def _is_hidden(self, managed: _Managed) -> bool:
        return managed.hidden and managed.phase is Phase.READY

    async def _load(self, managed: _Managed) -> None:
        try:
            await self._surroundings.reserve(self.name, managed.version, managed.path)
            self._observe(managed, VersionState.LOADING)
            servable = await self._surroundings.load(self.name, managed.version, managed.path, managed.wish)
        except BridgeError as error:
            self._failed(managed, error)
        else:
            await self._loaded(managed, servable)
        self.advance()

    async def _loaded(self, managed: _Managed, servable: Servable) -> None:
        managed.servable = servable
        if not managed.aspired:
            managed.phase = Phase.UNLOADING
            await self._surroundings.retire(servable, 0)
            self._failed(managed, BridgeError("Loading of servable cancelled", Code.CANCELLED))
            return
        managed.phase = Phase.READY
        self._surroundings.serve(servable)
        self._observe(managed, VersionState.AVAILABLE)
        self._surroundings.publish()

    def _failed(self, managed: _Managed, error: BridgeError) -> None:
        error = managed.verdict or error
        managed.phase = Phase.ERROR
        managed.servable = None
        self._observe(managed, VersionState.END, error.code, error.message)
        if not managed.aspired:
            del self._managed[managed.version]
        self._return_postponed(managed.version)

    async def _unload(self, managed: _Managed) -> None:
        self._observe(managed, VersionState.UNLOADING)
        epoch = self._surroundings.publish()
        if managed.servable is not None:
            await self._surroundings.retire(managed.servable, epoch)
        del self._managed[managed.version]
        self._observe(managed, VersionState.END)
        self._return_postponed(managed.version)
        self.advance()

    def _return_postponed(self, version: int) -> None:
        item = self._postponed.pop(version, None)
        if item is not None and version not in self._managed:
            self._discover(item)

    def _discover(self, item: VersionDirectory) -> None:
        self._managed[item.version] = _Managed(item.version, item.path, hidden=item.version not in self._asked)
        self._observe(self._managed[item.version], VersionState.START)

    def _observe(self, managed: _Managed, state: VersionState, code: Code = Code.OK, message: str = "") -> None:
        status = VersionStatus(managed.version, state, code, message)
        self._statuses[managed.version] = status
        self._surroundings.observed(self.name, status, managed.path, managed.servable)
        if state in (VersionState.AVAILABLE, VersionState.END):
            serves = state is VersionState.AVAILABLE
            self._awaited.decided(managed.version, serves=serves, last=not self._loading())
        self._changed()

    def _loading(self) -> set[int]:
        return {item.version for item in self._managed.values() if item.phase in (Phase.NEW, Phase.LOADING)}

    def _changed(self) -> None:
        self._route = None
        self._surroundings.publish_soon()

    def _servable_routes(self) -> Mapping[int, ServableRoute]:
        routes = {}
        for managed in self._managed.values():
            if managed.phase is Phase.READY and managed.servable is not None and not managed.hidden:
                instances = self._surroundings.instances_with(managed.servable.triton_name)
                routes[managed.version] = managed.servable.route(instances)
        return MappingProxyType(routes)

    def _assign_labels(self) -> None:
        ready = self.ready_versions().union(self._awaited.versions(self._loading()))
        for label in list(self._assigned):
            if label not in self._wanted_labels:
                del self._assigned[label]
        for label, version in self._wanted_labels.items():
            if version in ready:
                self._assigned[label] = version
