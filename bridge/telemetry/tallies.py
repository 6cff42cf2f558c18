"""Counters and histograms on Prometheus' page that cost little to count and can be summed over processes.

The client library's own take a lock and convert each value; all counting here is done on one event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import add
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


class Count:
    """One number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def increase(self) -> None:
        self.value += 1


class Observed:
    """Values by bucket; `bounds` are the buckets' inclusive upper bounds, one more has none."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class CounterTally(Collector):
    """A counter with a number for each combination of label values that was used; `name` is without `_total`."""

    def __init__(self, name: str, help_text: str, labels: Labels) -> None:
        self._name = name
        self._help = help_text
        self._labels = labels
        self._counts: dict[Labels, Count] = {}

    def of(self, *values: str) -> Count:
        """The number for these label values; it stays the same object."""
        return self._counts.setdefault(values, Count())

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count.value)
        yield family

    def take(self) -> list[Any]:
        """What was counted, as JSON; it is not counted here any more."""
        taken = [[list(values), count.value] for values, count in self._counts.items() if count.value]
        for count in self._counts.values():
            count.value = 0
        return taken

    def merge(self, taken: list[Any]) -> None:
        """Count what was taken from another process' tally of this kind."""
        for values, value in taken:
            self.of(*values).value += value


class HistogramTally(Collector):
    """A histogram with buckets for each combination of label values that was used."""

    def __init__(self, name: str, help_text: str, labels: Labels, bounds: Sequence[float]) -> None:
        self._name = name
        self._help = help_text
        self._labels = labels
        self._bounds = bounds
        self._printed = (*map(floatToGoString, bounds), "+Inf")
        self._cells: dict[Labels, Observed] = {}

    def of(self, *values: str) -> Observed:
        """The values for these label values; it stays the same object."""
        return self._cells.setdefault(values, Observed(self._bounds))

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for values, cell in self._cells.items():
            family.add_metric(values, list(zip(self._printed, accumulate(cell.counts), strict=True)), cell.total)
        yield family

    def take(self) -> list[Any]:
        """What was observed, as JSON; it is not counted here any more."""
        taken = [[list(values), cell.counts, cell.total] for values, cell in self._cells.items() if any(cell.counts)]
        for cell in self._cells.values():
            cell.counts, cell.total = [0] * (len(self._bounds) + 1), 0.0
        return taken

    def merge(self, taken: list[Any]) -> None:
        """Count what was taken from another process' tally of this kind."""
        for values, counts, total in taken:
            cell = self.of(*values)
            cell.counts[:] = map(add, cell.counts, counts)
            cell.total += total
