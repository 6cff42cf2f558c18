"""Builds routes snapshots from the models' managers and hands them to every router."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from bridge.serving.routes import InstanceRoute, ModelRoute, RegisteredRoute, Routes, VModelRoute

Sink = Callable[[Routes], None]


class Publisher:
    """Owner of the epoch. `models`, `instances` and what `add_modelmesh` gives are asked anew for each snapshot.

    Epochs start at the wall clock's milliseconds, so that those of a restarted control plane are newer.
    """

    def __init__(
        self,
        models: Callable[[], Iterable[ModelRoute]],
        instances: Callable[[], Mapping[str, InstanceRoute]],
    ) -> None:
        self._models = models
        self._instances = instances
        self._registered: Callable[[], Mapping[str, RegisteredRoute]] = dict
        self._vmodels: Callable[[], Mapping[str, VModelRoute]] = dict
        self._sinks: list[Sink] = []
        self._epoch = int(time.time() * 1000)
        self._scheduled: asyncio.Handle | None = None
        self.configured = False
        self.routes = Routes(epoch=0, models={}, instances={})

    def add_modelmesh(
        self, registered: Callable[[], Mapping[str, RegisteredRoute]], vmodels: Callable[[], Mapping[str, VModelRoute]]
    ) -> None:
        """Publish these as well, each by its id. Mappings that were given stay as they are."""
        self._registered = registered
        self._vmodels = vmodels

    def begin_at(self, epoch: int) -> None:
        """Publish under epochs past this one, whatever the clock says."""
        self._epoch = epoch

    def subscribe(self, sink: Sink) -> None:
        """Give `sink` the current snapshot and every later one."""
        self._sinks.append(sink)
        if self.routes.epoch:
            sink(self.routes)

    def publish(self) -> int:
        """Publish now; the epoch of the new snapshot."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        self._epoch += 1
        self.routes = Routes(
            epoch=self._epoch,
            models={model.name: model for model in self._models()},
            instances=dict(self._instances()),
            configured=self.configured,
            registered=self._registered(),
            vmodels=self._vmodels(),
        )
        for sink in self._sinks:
            sink(self.routes)
        return self._epoch

    def publish_soon(self) -> None:
        """Publish once the event loop comes round; many calls make one snapshot."""
        if self._scheduled is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._publish_scheduled)

    def _publish_scheduled(self) -> None:
        self._scheduled = None
        self.publish()
