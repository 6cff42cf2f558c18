"""Follows the published routes and has the registry write what each selector resolves to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from bridge.lifecycle.recorder import Recorder
from bridge.registry.events import label_subject, model_subject
from bridge.registry.live import Move, Served, ServedRegistration, ServedVersion
from bridge.registry.modelmesh_events import vmodel_subject
from bridge.registry.records import Actor
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import ModelRoute, RegisteredRoute, Routes, VModelRoute

RECONCILE = Actor("bridge", "reconcile")

Selectors = Mapping[str, Served]
"""What is served, by subject."""


class LiveTracker:
    """A sink of a publisher. Each snapshot costs what changed since the one before; only moves are written.

    Moves that come while the database is busy are written in one transaction, in their order.
    """

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        self._registry = registry
        self._recorder = recorder
        self._models: Mapping[str, ModelRoute] = {}
        self._registered: Mapping[str, RegisteredRoute] = {}
        self._vmodels: Mapping[str, VModelRoute] = {}
        self._served: dict[str, Selectors] = {}
        self._unconfirmed: frozenset[str] = frozenset()
        self._moves: deque[Move] = deque()
        self._batch: list[Move] = []
        self._asked = False

    async def learn(self, thread: RegistryThread) -> None:
        """Go on from what the registry says is live. Raises Unavailable."""
        self._unconfirmed = frozenset(await thread.call(self._registry.live))

    def follow(self, routes: Routes) -> None:
        """Take a snapshot."""
        for group, selectors in self._changed(routes):
            before = self._served.pop(group, {})
            if selectors:
                self._served[group] = selectors
            self._compare(before, selectors)
        self._models, self._registered, self._vmodels = routes.models, routes.registered, routes.vmodels
        if self._unconfirmed:
            confirmed = {subject for selectors in self._served.values() for subject in selectors}
            self._moves.extend(Move(subject, None) for subject in sorted(self._unconfirmed - confirmed))
            self._unconfirmed = frozenset()
        if self._moves and not self._asked:
            self._asked = True
            self._recorder.record(self._write)

    def _changed(self, routes: Routes) -> Iterator[tuple[str, Selectors]]:
        """The groups of selectors that may have moved, with what is served by them now."""
        for name, model in routes.models.items():
            if self._models.get(name) is not model:
                yield f"model {name}", _of_model(model)
        if routes.registered is self._registered and routes.vmodels is self._vmodels:
            return
        for id in self._registered.keys() | routes.registered.keys():
            registered = routes.registered.get(id)
            # A model of TF Serving's configuration has the name for itself.
            if self._registered.get(id) is not registered and id not in routes.models:
                found = _of_registered(registered)
                yield f"registered {id}", {model_subject(id): found} if found is not None else {}
        for id in self._vmodels.keys() | routes.vmodels.keys():
            vmodel = routes.vmodels.get(id)
            found = _of_registered(routes.registered.get(vmodel.active)) if vmodel is not None else None
            yield f"vmodel {id}", {vmodel_subject(id): found} if found is not None else {}

    def _compare(self, before: Selectors, after: Selectors) -> None:
        for subject in before.keys() - after.keys():
            self._moves.append(Move(subject, None))
        for subject, found in after.items():
            if before.get(subject) != found:
                self._moves.append(Move(subject, found))

    def _write(self) -> None:
        """On the registry's thread: what came until now. After an error the same is written again, with what came."""
        self._asked = False
        while self._moves:
            self._batch.append(self._moves.popleft())
        self._registry.record_moves(self._batch, RECONCILE)
        self._batch.clear()


def _of_model(model: ModelRoute) -> Selectors:
    loaded = tuple(sorted((item.version for item in model.servables.values() if item.instances), reverse=True))
    selectors: dict[str, Served] = {}
    latest = model.latest()
    if latest is not None and latest.version in loaded:
        selectors[model_subject(model.name)] = ServedVersion(model.name, latest.version, loaded)
    for label, version in model.labels.items():
        if version in loaded:
            selectors[label_subject(model.name, label)] = ServedVersion(model.name, version, (version,))
    return MappingProxyType(selectors)


def _of_registered(route: RegisteredRoute | None) -> Served | None:
    if route is None or route.loaded is None:
        return None
    # A Triton name ends in the generation of its registration.
    return ServedRegistration(route.id, int(route.loaded.triton_name.rpartition(".")[2]))
