"""The bridge's own metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client import generate_latest as text
from prometheus_client.registry import Collector

from bridge.errors import Code
from bridge.telemetry.observers import CallObserver, RequestObserver

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""


class Metrics:
    """The metrics of one process: its requests, its calls to Triton, and what the `collectors` read when asked."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, *collectors: Collector) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "bridge_requests",
            "Answered requests by API, call and canonical status code",
            ("api", "call", "code"),
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "bridge_request_seconds",
            "Seconds from a request's arrival to its answer",
            ("api", "call"),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._triton_calls = Counter(
            "bridge_triton_calls",
            "Inference calls to a Triton instance by outcome: ok, deadline, cancelled, or who was to blame",
            ("instance", "outcome"),
            registry=self._registry,
        )
        self._triton_seconds = Histogram(
            "bridge_triton_call_seconds",
            "Seconds of an inference call to a Triton instance",
            ("instance",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        for collector in collectors:
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def requests(self, api: str) -> RequestObserver:
        """Counts the requests of one API; `call` and `api` come from fixed sets, never from a client."""
        # Looking a child up by its labels costs as much as counting, so each is looked up once.
        counts: dict[tuple[str, Code], Callable[[], None]] = {}
        times: dict[str, Callable[[float], None]] = {}

        def observe(call: str, code: Code, seconds: float) -> None:
            if (call, code) not in counts:
                counts[call, code] = self._requests.labels(api, call, code.name).inc
                times[call] = self._request_seconds.labels(api, call).observe
            counts[call, code]()
            times[call](seconds)

        return observe

    def triton_calls(self, instance: str) -> CallObserver:
        """Counts the calls to one instance."""
        counts: dict[str, Callable[[], None]] = {}
        time = self._triton_seconds.labels(instance).observe

        def observe(outcome: str, seconds: float) -> None:
            if outcome not in counts:
                counts[outcome] = self._triton_calls.labels(instance, outcome).inc
            counts[outcome]()
            time(seconds)

        return observe

    def page(self) -> bytes:
        return text(self._registry)
