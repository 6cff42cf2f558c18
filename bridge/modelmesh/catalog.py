"""The registered models as this process knows them: what placement loads, and which loads failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bridge.errors import Code
from bridge.lifecycle.recorder import Recorder
from bridge.modelmesh.registration import Registration, registration
from bridge.placement.clock import Clock
from bridge.placement.model import Failure, Loadable
from bridge.registry.records import Actor, RegisteredModel
from bridge.registry.registry import Registry

PLACEMENT = Actor("bridge", "placement")

Enroll = Callable[[RegisteredModel], Registration]


class ModelCatalog:
    """A mirror of the registry's models, which answers at once; failures are written to the registry by the way.

    Failures in memory are the truth of this process, which alone loads: the registry's are read when a model comes.
    """

    def __init__(self, registry: Registry, recorder: Recorder, enroll: Enroll, clock: Clock) -> None:
        self._registry = registry
        self._recorder = recorder
        self._enroll = enroll
        self._clock = clock
        self._models: dict[str, Loadable] = {}
        self._by_triton_name: dict[str, Registration] = {}
        self._last_used: dict[str, int] = {}
        self._failures: dict[str, dict[str, Failure]] = {}

    def put(self, model: RegisteredModel) -> bool:
        """The model is registered like this; whether that is another registration than before."""
        self._last_used[model.id] = max(model.last_used_at // 1000, self._last_used.get(model.id, 0))
        known = self._models.get(model.id)
        if known is not None and known.generation >= model.generation:
            return False
        self._forget_name(model.id)
        enrolled = self._enroll(model)
        self._models[model.id] = enrolled.loadable()
        self._by_triton_name[enrolled.triton_name] = enrolled
        self._last_used[model.id] = model.last_used_at // 1000
        self._failures[model.id] = {
            item.instance: Failure(item.instance, Code(item.code), item.message, item.at // 1000)
            for item in model.failures
        }
        return True

    def drop(self, model_id: str) -> None:
        """The model is not registered any more."""
        self._forget_name(model_id)
        for table in (self._models, self._last_used, self._failures):
            table.pop(model_id, None)

    def registration(self, model_id: str) -> Registration | None:
        model = self._models.get(model_id)
        return registration(model) if model is not None else None

    def by_triton_name(self, name: str) -> Registration | None:
        """The current registration whose copies have this name."""
        return self._by_triton_name.get(name)

    def last_used(self, model_id: str) -> int:
        """Milliseconds UTC as the registry says, 0 for an unknown model."""
        return self._last_used.get(model_id, 0)

    def used_at(self, last_used: Mapping[str, int]) -> None:
        """The registry will say these times, milliseconds UTC by id."""
        self._last_used.update((id, at) for id, at in last_used.items() if id in self._models)

    # Catalog: what placement asks and tells

    def get(self, model_id: str) -> Loadable | None:
        return self._models.get(model_id)

    def ids(self) -> Iterable[str]:
        return sorted(self._models, key=lambda id: self._last_used[id], reverse=True)

    def failures(self, model_id: str) -> Sequence[Failure]:
        return tuple(self._failures.get(model_id, {}).values())

    def failed(self, model_id: str, instance: str, code: Code, message: str) -> None:
        model = self._models.get(model_id)
        if model is None:
            return
        self._failures[model_id][instance] = Failure(instance, code, message, self._clock.now())
        self._recorder.record(
            self._registry.record_load_failure,
            model_id,
            instance,
            int(code),
            message,
            PLACEMENT,
            generation=model.generation,
        )

    def forget(self, model_id: str, instances: Sequence[str]) -> None:
        failures = self._failures.get(model_id, {})
        forgotten = [instance for instance in instances if failures.pop(instance, None) is not None]
        if forgotten:
            self._recorder.record(self._registry.forget_load_failures, model_id, forgotten, PLACEMENT)

    def _forget_name(self, model_id: str) -> None:
        known = self.registration(model_id)
        if known is not None:
            del self._by_triton_name[known.triton_name]
