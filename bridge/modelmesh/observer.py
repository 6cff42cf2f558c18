"""What placement does, as rows and events of the registry."""

from __future__ import annotations

import logging

from bridge.errors import BridgeError
from bridge.lifecycle.observations import Observations
from bridge.modelmesh.registration import registration
from bridge.placement.model import Loadable
from bridge.placement.ports import PlacementObserver

logger = logging.getLogger(__name__)


class RecordingObserver:
    """Copies that come are recorded where they are loaded; here those are that go on purpose."""

    def __init__(self, observations: Observations) -> None:
        self._observations = observations

    def load_started(self, model: Loadable, instance: str, queued_ms: int) -> None:
        logger.info("loading model %s on instance %s, after %d ms in the queue", model.id, instance, queued_ms)

    def load_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        if error is None:
            logger.info("model %s serves on instance %s, loaded in %d ms", model.id, instance, took_ms)
        else:
            logger.warning("loading model %s on instance %s failed: %s", model.id, instance, error.message)

    def sized(self, model: Loadable, instance: str, size: int, took_ms: int) -> None:
        logger.info("model %s takes %d bytes on instance %s", model.id, size, instance)

    def evicted(self, model: Loadable, instance: str, age_ms: int) -> None:
        """Said by placement."""

    def unload_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        servable = registration(model).servable
        if error is None and servable is not None:
            self._observations.unloaded(servable, (instance,))


class PlacementObservers:
    """Several observers as one."""

    def __init__(self, *observers: PlacementObserver) -> None:
        self._observers = observers

    def load_started(self, model: Loadable, instance: str, queued_ms: int) -> None:
        for observer in self._observers:
            observer.load_started(model, instance, queued_ms)

    def load_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        for observer in self._observers:
            observer.load_ended(model, instance, took_ms, error)

    def sized(self, model: Loadable, instance: str, size: int, took_ms: int) -> None:
        for observer in self._observers:
            observer.sized(model, instance, size, took_ms)

    def evicted(self, model: Loadable, instance: str, age_ms: int) -> None:
        for observer in self._observers:
            observer.evicted(model, instance, age_ms)

    def unload_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        for observer in self._observers:
            observer.unload_ended(model, instance, took_ms, error)
