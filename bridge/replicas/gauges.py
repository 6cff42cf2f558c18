"""The state of a replica as metrics, by its role."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.serving.control import RoutesView
from bridge.telemetry.state import build_info, version_states


class ReplicaCollector(Collector):
    """What `state` tells, and whether this replica `leads`."""

    def __init__(self, state: Collector, leads: Callable[[], bool]) -> None:
        self._state = state
        self._leads = leads

    def collect(self) -> Iterator[Metric]:
        help_text = "1 while this bridge leads those on its database"
        yield GaugeMetricFamily("bridge_replica_leads", help_text, float(self._leads()))
        yield from self._state.collect()


class FollowerCollector(Collector):
    """What the snapshot says, or while this replica leads what its control plane does."""

    def __init__(self, view: RoutesView, deciding: Callable[[], Collector | None]) -> None:
        self._view = view
        self._deciding = deciding

    def collect(self) -> Iterator[Metric]:
        deciding = self._deciding()
        if deciding is not None:
            yield from deciding.collect()
            return
        routes = self._view.routes
        yield build_info()
        yield version_states(routes)
        yield GaugeMetricFamily("bridge_routes_epoch", "Epoch of the published routes snapshot", routes.epoch)
