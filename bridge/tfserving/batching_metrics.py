"""The metrics of batches, which form in the runners: read from them when the Prometheus page is asked for."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from bridge.serving.flights import Copy
from bridge.serving.runners import Description, Runners
from bridge.tfserving.metrics import ServingMetrics

PATIENCE = 0.5
"""Seconds that the page waits for busy runners; what they did is then on a later page."""


class _Seen(NamedTuple):
    pid: int
    sizes: Counter[int]


class BatchingMetrics:
    """Adds to `metrics` what the runners did since the last page, so that nothing shrinks when one is replaced.

    `runners` is None where no requests are merged.
    """

    def __init__(self, runners: Runners | None, metrics: ServingMetrics) -> None:
        self._runners = runners
        self._metrics = metrics
        self._seen: dict[Copy, _Seen] = {}

    async def page(self) -> bytes:
        """The Prometheus page."""
        if self._runners is not None:
            for copy, description in (await self._runners.describe(PATIENCE)).items():
                self._add(copy, description)
        return self._metrics.page()

    def _add(self, copy: Copy, description: Description) -> None:
        sizes = Counter({int(rows): count for rows, count in description.get("batch_sizes", {}).items()})
        now = _Seen(description["pid"], sizes)
        before = self._seen.get(copy)
        new = sizes - before.sizes if before is not None and before.pid == now.pid else sizes
        self._seen[copy] = now
        for rows, count in new.items():
            self._metrics.batched(rows, count)
