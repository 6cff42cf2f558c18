"""The bridge's own metrics in Prometheus' text format.

Gauges are read from the control plane when the page is asked for, so nothing keeps a second count of its state.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.errors import Code
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.recorder import Recorder

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""


class Metrics:
    """The metrics of one process. `observe` is called once for each answered request."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, plane: ControlPlane, recorder: Recorder) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "bridge_requests",
            "Answered requests by call and canonical status code",
            ("call", "code"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "bridge_request_seconds",
            "Seconds from a request's arrival to its answer",
            ("call",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_StateCollector(plane, recorder))

    def observe(self, call: str, code: Code, seconds: float) -> None:
        """A request of kind `call` was answered with `code` after `seconds`."""
        self._requests.labels(call, code.name).inc()
        self._seconds.labels(call).observe(seconds)

    def page(self) -> bytes:
        return generate_latest(self._registry)


class _StateCollector(Collector):
    def __init__(self, plane: ControlPlane, recorder: Recorder) -> None:
        self._plane = plane
        self._recorder = recorder

    def collect(self) -> Iterator[Metric]:
        yield self._versions()
        yield from self._instances()
        routes = self._plane.publisher.routes
        yield GaugeMetricFamily("bridge_routes_epoch", "Epoch of the published routes snapshot", routes.epoch)
        yield GaugeMetricFamily(
            "bridge_registry_backlog", "Observed changes that wait for the registry", self._recorder.backlog
        )

    def _versions(self) -> Metric:
        family = GaugeMetricFamily(
            "bridge_model_versions",
            "Versions by model and state, as GetModelStatus shows them",
            labels=("model", "state"),
        )
        for model in self._plane.publisher.routes.models.values():
            for state, count in Tally(status.state.name for status in model.statuses).items():
                family.add_metric((model.name, state), count)
        return family

    def _instances(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("bridge_instance_up", "1 while a Triton instance is up", labels=("instance",))
        copies = GaugeMetricFamily("bridge_instance_copies", "Loaded copies on an instance", labels=("instance",))
        for name, controller in self._plane.fleet.controllers.items():
            up.add_metric((name,), float(controller.up))
            copies.add_metric((name,), len(controller.loaded))
        yield from (up, copies)
