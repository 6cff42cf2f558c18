"""Metrics that are read from the parts when the page is asked for, so that nobody keeps a second count."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge import __version__
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.recorder import Recorder
from bridge.registry.registry import Registry
from bridge.serving.routes import Routes


class StateCollector(Collector):
    """State of the control plane and of the way into the registry. Nothing here asks the database."""

    def __init__(self, plane: ControlPlane, recorder: Recorder, registry: Registry) -> None:
        self._plane = plane
        self._recorder = recorder
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        routes = self._plane.publisher.routes
        yield build_info()
        yield version_states(routes)
        yield from self._instances()
        yield GaugeMetricFamily("bridge_routes_epoch", "Epoch of the published routes snapshot", routes.epoch)
        yield CounterMetricFamily(
            "bridge_events", "Events that this process wrote to the history", self._registry.events_written
        )
        yield GaugeMetricFamily(
            "bridge_registry_backlog", "Observed changes that wait for the registry", self._recorder.backlog
        )

    def _instances(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("bridge_instance_up", "1 while a Triton instance is up", labels=("instance",))
        copies = GaugeMetricFamily("bridge_instance_copies", "Loaded copies on an instance", labels=("instance",))
        for name, controller in self._plane.fleet.controllers.items():
            up.add_metric((name,), float(controller.up))
            copies.add_metric((name,), len(controller.loaded))
        yield from (up, copies)


def build_info() -> Metric:
    """The version of the bridge."""
    family = GaugeMetricFamily("bridge_build_info", "1, with the version of the bridge", labels=("version",))
    family.add_metric((__version__,), 1.0)
    return family


def version_states(routes: Routes) -> Metric:
    """How many versions of each model are in each state."""
    family = GaugeMetricFamily(
        "bridge_model_versions", "Versions by model and state, as GetModelStatus shows them", labels=("model", "state")
    )
    for model in routes.models.values():
        for state, count in Tally(status.state.name for status in model.statuses).items():
            family.add_metric((model.name, state), count)
    return family
