"""Histograms on a Prometheus page as ModelMesh's client library writes them: bounds in Java's notation of numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import accumulate
from operator import add
from typing import Any

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
        self._cells = self._none()

    def observe(self, value: float, labels: Labels = ()) -> None:
        cell = self._cell(labels)
        if cell is not None:
            cell.counts[bisect_left(self._bounds, value)] += 1
            cell.total += value

    def take(self) -> list[Any]:
        """What was observed, as JSON; it is not counted here any more."""
        cells, self._cells = self._cells, self._none()
        return [[list(labels), cell.counts, cell.total] for labels, cell in cells.items() if any(cell.counts)]

    def merge(self, taken: list[Any]) -> None:
        """Count what was taken from another process' histogram of this kind."""
        for labels, counts, total in taken:
            cell = self._cell(tuple(labels))
            if cell is not None:
                cell.counts[:] = map(add, cell.counts, counts)
                cell.total += total

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

    def _none(self) -> dict[Labels, _Cell]:
        return {} if self._labels else {(): _Cell(len(self._bounds))}

    def _cell(self, labels: Labels) -> _Cell | None:
        """The cell for `labels`, made where it is missing; None past the limit."""
        cell = self._cells.get(labels)
        if cell is None and len(self._cells) < CELL_LIMIT:
            cell = self._cells[labels] = _Cell(len(self._bounds))
        return cell


def java_number(value: float) -> str:
    """A positive number as Java's Double.toString writes it: `2097152.0`, and `1.6777216E7` from ten millions on."""
    if 1e-3 <= value < 1e7:
        return repr(float(value))
    digits = "".join(str(digit) for digit in Decimal(repr(float(value))).normalize().as_tuple().digits)
    return f"{digits[0]}.{digits[1:] or '0'}E{Decimal(repr(float(value))).adjusted()}"
