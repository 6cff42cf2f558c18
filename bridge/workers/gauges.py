"""How many workers there are, on the metrics page."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.workers.workers import Workers


class WorkerGauges(Collector):
    """Reads `workers` when the page is asked for."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("bridge_workers", "Worker processes that answer clients", self._workers.serving)
        yield CounterMetricFamily(
            "bridge_worker_replacements", "Worker processes that ended and were replaced", self._workers.replaced
        )
