"""The bridge's own metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector
from prometheus_client import generate_latest as text
from prometheus_client.registry import Collector

from bridge.errors import Code
from bridge.telemetry.observers import CallObserver, RequestObserver
from bridge.telemetry.tallies import CounterTally, HistogramTally

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""


class Metrics:
    """The metrics of one process: its requests, its calls to Triton, and what the `collectors` read when asked."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, *collectors: Collector) -> None:
        self._registry = CollectorRegistry()
        self._requests = CounterTally(
            "bridge_requests", "Answered requests by API, call and canonical status code", ("api", "call", "code")
        )
        self._request_seconds = HistogramTally(
            "bridge_request_seconds", "Seconds from a request's arrival to its answer", ("api", "call"), BUCKETS
        )
        self._triton_calls = CounterTally(
            "bridge_triton_calls",
            "Inference calls to a Triton instance by leg and outcome: ok, deadline, cancelled, or who was to blame",
            ("instance", "leg", "outcome"),
        )
        self._triton_seconds = HistogramTally(
            "bridge_triton_call_seconds",
            "Seconds of an inference call to a Triton instance by leg",
            ("instance", "leg"),
            BUCKETS,
        )
        self._tallies: dict[str, CounterTally | HistogramTally] = {
            "requests": self._requests,
            "request_seconds": self._request_seconds,
            "triton_calls": self._triton_calls,
            "triton_seconds": self._triton_seconds,
        }
        for collector in (*self._tallies.values(), *collectors):
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        self._refresh: Callable[[], Awaitable[None]] | None = None

    def requests(self, api: str) -> RequestObserver:
        """Counts the requests of one API; `call` and `api` come from fixed sets, never from a client."""
        # Looking a cell up by its labels costs as much as counting, so each is looked up once.
        counts: dict[tuple[str, Code], Callable[[], None]] = {}
        times: dict[str, Callable[[float], None]] = {}

        def observe(call: str, code: Code, seconds: float) -> None:
            if (call, code) not in counts:
                counts[call, code] = self._requests.of(api, call, code.name).increase
                times[call] = self._request_seconds.of(api, call).observe
            counts[call, code]()
            times[call](seconds)

        return observe

    def triton_calls(self, instance: str, leg: str) -> CallObserver:
        """Counts the calls to one instance by the transport `leg`."""
        counts: dict[str, Callable[[], None]] = {}
        time = self._triton_seconds.of(instance, leg).observe

        def observe(outcome: str, seconds: float) -> None:
            if outcome not in counts:
                counts[outcome] = self._triton_calls.of(instance, leg, outcome).increase
            counts[outcome]()
            time(seconds)

        return observe

    def refresh_by(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Await `refresh` before each page that is asked for: other processes have counts that belong to it."""
        self._refresh = refresh

    async def refresh(self) -> None:
        """Have the newest counts of every process."""
        if self._refresh is not None:
            await self._refresh()

    async def read(self) -> bytes:
        """The page with the newest counts of every process."""
        await self.refresh()
        return self.page()

    def show(self, collector: Collector) -> None:
        """Have what `collector` reads on the page, too."""
        self._registry.register(collector)

    def page(self) -> bytes:
        return text(self._registry)

    def take(self) -> dict[str, Any]:
        """What was counted, as JSON; it is not counted here any more."""
        return {name: taken for name, tally in self._tallies.items() if (taken := tally.take())}

    def merge(self, taken: Mapping[str, Any]) -> None:
        """Count what was taken in another process."""
        for name, cells in taken.items():
            self._tallies[name].merge(cells)
