"""What a replica with a Triton of its own writes down: its copies always, versions while it leads."""

from __future__ import annotations

import logging

from bridge.lifecycle.observations import Observations
from bridge.lifecycle.recorder import Recorder
from bridge.lifecycle.servable import Servable
from bridge.registry.registry import Registry
from bridge.serving.routes import VersionStatus

logger = logging.getLogger(__name__)


class ReplicaObservations(Observations):
    """All replicas see the same base paths, so only the leader's word on versions is written; `lead` says by what."""

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        super().__init__(registry, recorder)
        self._own_recorder = recorder
        self._led: Observations | None = None

    def lead(self, fenced: Registry | None) -> None:
        """Write versions by this registry from now on, None for nobody's."""
        self._led = None if fenced is None else Observations(fenced, self._own_recorder)

    def version(
        self, model: str, status: VersionStatus, path: str, servable: Servable | None, *, asked: bool = False
    ) -> None:
        if self._led is not None:
            self._led.version(model, status, path, servable, asked=asked)
        else:
            logger.info("model %s version %d: %s", model, status.version, status.state.name)

    def trouble(self, model: str, version: int, sentence: str) -> None:
        if self._led is not None:
            self._led.trouble(model, version, sentence)
        else:
            logger.warning("model %s version %d waits for the platform: %s", model, version, sentence)

    def problem(self, model: str, path: str, sentence: str | None) -> None:
        if self._led is not None:
            self._led.problem(model, path, sentence)
        elif sentence is not None:
            logger.warning("model %s: %s", model, sentence)
