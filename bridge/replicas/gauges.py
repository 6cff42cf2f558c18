"""The state of a replica as metrics, by its role."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.serving.control import RoutesView
from bridge.telemetry.state import build_info, version_states


class ReplicaCollector(Collector):
    """Shows what `deciding`, the collector of the control plane, tells while this replica leads, else its snapshot."""

    def __init__(self, view: RoutesView) -> None:
        self.deciding: Callable[[], Collector | None] = lambda: None
        self._view = view

    def collect(self) -> Iterator[Metric]:
        deciding = self.deciding()
        yield GaugeMetricFamily(
            "bridge_replica_leads", "1 while this bridge leads those on its database", float(deciding is not None)
        )
        if deciding is not None:
            yield from deciding.collect()
            return
        routes = self._view.routes
        yield build_info()
        yield version_states(routes)
        yield GaugeMetricFamily("bridge_routes_epoch", "Epoch of the published routes snapshot", routes.epoch)
