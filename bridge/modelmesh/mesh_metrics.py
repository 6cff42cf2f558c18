"""ModelMesh's metrics: names, labels and buckets that its dashboards know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.errors import BridgeError, Code
from bridge.modelmesh.histogram import Histogram
from bridge.placement.model import CopyState, Loadable
from bridge.placement.placement import InstanceView, Placement

_SECOND, _HOUR = 1000.0, 3_600_000.0
_DAY = 24 * _HOUR
TIMES = (0.5, 1, 2, 5, 10, 20, 50, 75, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 6e4, 1.2e5, 3e5)
"""Milliseconds."""
AGES = (
    30 * _SECOND,
    300 * _SECOND,
    900 * _SECOND,
    *(n * _HOUR for n in (1, 4, 12)),
    *(n * _DAY for n in (1, 7, 30, 90)),
)
"""Milliseconds."""
MODEL_SIZES = tuple(256 * 1024 * 4.0**power for power in range(8))
MESSAGE_SIZES = tuple(128 * 4.0**power for power in range(8))

Ids = tuple[str, str]
"""The ids of a model and of the vmodel that named it, empty where there is none."""

NO_LRU_SECONDS = (2**63 - 1) // 1000
"""What ModelMesh tells as the time of last use where no model is loaded."""


class MeshMetrics(Collector):
    """Observer of placement and of the requests on the ModelMesh port.

    `per_model` adds the labels modelId and vModelId. `info` is a constant gauge: its name and its labels.
    """

    def __init__(self, *, per_model: bool = False, info: tuple[str, Mapping[str, str]] | None = None) -> None:
        self.per_model = per_model
        self._info = info
        ids = ("modelId", "vModelId") if per_model else ()
        request = ("method", "code", *ids)

        def times(name: str, help_text: str, labels: tuple[str, ...] = ids) -> Histogram:
            return Histogram(f"modelmesh_{name}_milliseconds", help_text, labels, TIMES)

        self._requests = times("api_request", "Time of a request on the ModelMesh port", request)
        self._invocations = times("invoke_model", "Time of a run of a model", request)
        self._request_sizes = Histogram("modelmesh_request_size_bytes", "Size of a request", request, MESSAGE_SIZES)
        self._response_sizes = Histogram("modelmesh_response_size_bytes", "Size of a response", request, MESSAGE_SIZES)
        self._misses = times("cache_miss", "Time that requests waited for a model to load")
        self._loads = times("loadmodel", "Time of a load")
        self._unloads = times("unloadmodel", "Time of an unload")
        self._request_queue = times("req_queue_delay", "Time of a request in a queue of its model")
        self._load_queue = times("loading_queue_delay", "Time of a load in its queue")
        self._sizings = times("model_sizing", "Time to measure a model")
        self._ages = Histogram(
            "modelmesh_age_at_eviction_milliseconds", "Time since the last use of a model that made room", ids, AGES
        )
        self._sizes = Histogram("modelmesh_loaded_model_size_bytes", "Size of a loaded model", ids, MODEL_SIZES)
        self._histograms = {
            "requests": self._requests,
            "invocations": self._invocations,
            "request_sizes": self._request_sizes,
            "response_sizes": self._response_sizes,
            "misses": self._misses,
            "loads": self._loads,
            "unloads": self._unloads,
            "request_queue": self._request_queue,
            "load_queue": self._load_queue,
            "sizings": self._sizings,
            "ages": self._ages,
            "sizes": self._sizes,
        }
        self._counts = {
            "modelmesh_loadmodel_failure": 0,
            "modelmesh_unloadmodel_failure": 0,
            "modelmesh_unloadmodel_attempt_failure": 0,
        }
        self._placement: Placement | None = None
        self._models: Callable[[], Any] = tuple

    def watch(self, placement: Placement, models: Callable[[], Any]) -> None:
        """Tell of these instances and of the models whose ids `models` gives."""
        self._placement, self._models = placement, models

    # Requests

    def requested(
        self, method: str, code: Code, seconds: float, request: int, response: int | None, ids: Ids = ("", "")
    ) -> None:
        """A request was answered; sizes are in bytes, None for no response."""
        labels = (method, code.name, *self._ids(ids))
        self._requests.observe(seconds * 1000, labels)
        self._request_sizes.observe(request, labels)
        if response is not None:
            self._response_sizes.observe(response, labels)

    def invoked(self, method: str, seconds: float, ids: Ids = ("", "")) -> None:
        """A model ran for a request."""
        self._invocations.observe(seconds * 1000, (method, Code.OK.name, *self._ids(ids)))

    def missed(self, model_id: str, waited_ms: int) -> None:
        """A request found no copy of a model; the load that it caused ended."""
        self._misses.observe(waited_ms, self._ids((model_id, "")))

    # Counts of other processes, which have requests but no placement

    def take(self) -> dict[str, Any]:
        """What was observed, as JSON; it is not counted here any more."""
        return {name: taken for name, histogram in self._histograms.items() if (taken := histogram.take())}

    def merge(self, taken: Mapping[str, Any]) -> None:
        """Count what was taken in another process."""
        for name, cells in taken.items():
            self._histograms[name].merge(cells)

    # PlacementObserver

    def load_started(self, model: Loadable, instance: str, queued_ms: int) -> None:
        self._load_queue.observe(queued_ms, self._of(model))

    def load_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        if error is None:
            self._loads.observe(took_ms, self._of(model))
        else:
            self._counts["modelmesh_loadmodel_failure"] += 1

    def sized(self, model: Loadable, instance: str, size: int, took_ms: int) -> None:
        self._sizes.observe(size, self._of(model))
        self._sizings.observe(took_ms, self._of(model))

    def evicted(self, model: Loadable, instance: str, age_ms: int) -> None:
        self._ages.observe(age_ms, self._of(model))

    def unload_ended(self, model: Loadable, instance: str, took_ms: int, error: BridgeError | None) -> None:
        if error is None:
            self._unloads.observe(took_ms, self._of(model))
        else:
            self._counts["modelmesh_unloadmodel_attempt_failure"] += 1

    # Collector

    def collect(self) -> Iterator[Metric]:
        for histogram in self._histograms.values():
            yield from histogram.collect()
        for name, count in self._counts.items():
            # Not a counter for the client library, which would add `_total` to the name.
            metric = Metric(name, "Failures of this kind", "untyped")
            metric.add_sample(name, {}, count)
            yield metric
        if self._info is not None:
            name, labels = self._info
            gauge = GaugeMetricFamily(name, "Info Metrics", labels=tuple(labels))
            gauge.add_metric(tuple(labels.values()), 1.0)
            yield gauge
        if self._placement is not None:
            yield from self._fleet(self._placement)

    def _fleet(self, placement: Placement) -> Iterator[Metric]:
        ids = list(self._models())
        states = [{copy.state for copy in placement.copies(id)} for id in ids]
        yield _gauge("models_managed_total", "Registered models", len(ids))
        yield _gauge("models_loaded_total", "Models with a loaded copy", sum(CopyState.LOADED in s for s in states))
        failed = sum(CopyState.LOADING_FAILED in state for state in states)
        yield _gauge("models_with_failure_total", "Models with a failed load", failed)
        yield from _instances(placement.instances())

    def _of(self, model: Loadable) -> tuple[str, ...]:
        return self._ids((model.id, ""))

    def _ids(self, ids: Ids) -> tuple[str, ...]:
        return ids if self.per_model else ()


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"modelmesh_{name}", help_text, value)


def _instances(instances: tuple[InstanceView, ...]) -> Iterator[Metric]:
    """A gauge of each kind: without a label for one instance, as in ModelMesh, else by `triton`."""
    labels = ("triton",) if len(instances) > 1 else ()
    for name, (help_text, value) in _INSTANCE.items():
        gauge = GaugeMetricFamily(f"modelmesh_instance_{name}", help_text, labels=labels)
        for instance in instances:
            gauge.add_metric((instance.name,) if labels else (), value(instance))
        yield gauge


def _age(instance: InstanceView) -> float:
    return max(0.0, time.time() - instance.oldest_use_ms / 1000) if instance.oldest_use_ms is not None else 0.0


def _lru(instance: InstanceView) -> float:
    return instance.oldest_use_ms // 1000 if instance.oldest_use_ms is not None else NO_LRU_SECONDS


_INSTANCE: Mapping[str, tuple[str, Callable[[InstanceView], float]]] = {
    "lru_seconds": ("Last use of the model that was used least recently, seconds since the epoch", _lru),
    "lru_age_seconds": ("Seconds since that", _age),
    "capacity_bytes": ("Capacity for models", lambda instance: instance.capacity),
    "used_bytes": ("Bytes that models take", lambda instance: instance.used),
    "used_bps": (
        "That in ten thousandths of the capacity",
        lambda instance: instance.used * 10_000 // instance.capacity if instance.capacity else 0,
    ),
    "models_total": ("Models", lambda instance: instance.models),
}
