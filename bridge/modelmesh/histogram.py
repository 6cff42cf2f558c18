"""Histograms on a Prometheus page as ModelMesh's client library writes them: bounds in Java's notation of numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import accumulate

from prometheus_client.core import Metric

CELL_LIMIT = 10_000
"""Combinations of label values that one histogram holds."""

Labels = tuple[str, ...]


class _Cell:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Histogram:
    """Observed values by the values of `labels`, in buckets whose upper `bounds` count as inside."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._texts = (*(java_number(bound) for bound in bounds), "+Inf")
        self._cells: dict[Labels, _Cell] = {} if labels else {(): _Cell(len(self._bounds))}

    def observe(self, value: float, labels: Labels = ()) -> None:
        cell = self._cells.get(labels)
        if cell is None:
            if len(self._cells) >= CELL_LIMIT:
                return
            cell = self._cells[labels] = _Cell(len(self._bounds))
        cell.counts[bisect_left(self._bounds, value)] += 1
        cell.total += value

    def collect(self) -> Iterator[Metric]:
        metric = Metric(self._name, self._help, "histogram")
        for values, cell in self._cells.items():
            labels = dict(zip(self._labels, values, strict=True))
            counts = list(accumulate(cell.counts))
            for bound, count in zip(self._texts, counts, strict=True):
                metric.add_sample(f"{self._name}_bucket", {**labels, "le": bound}, count)
            metric.add_sample(f"{self._name}_count", labels, counts[-1])
            metric.add_sample(f"{self._name}_sum", labels, cell.total)
        yield metric


def java_number(value: float) -> str:
    """A positive number as Java's Double.toString writes it: `2097152.0`, and `1.6777216E7` from ten millions on."""
    if 1e-3 <= value < 1e7:
        return repr(float(value))
    digits = "".join(str(digit) for digit in Decimal(repr(float(value))).normalize().as_tuple().digits)
    return f"{digits[0]}.{digits[1:] or '0'}E{Decimal(repr(float(value))).adjusted()}"
