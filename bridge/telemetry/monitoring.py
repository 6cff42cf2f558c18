"""Counters and histograms named as TensorFlow names its own, and the page on which TF Serving shows them.

The page is Prometheus' text format as TF Serving's exporter writes it (prometheus_exporter.cc): metric names begin with
a colon, there is no help, a metric without values still shows its type, and a value that equals a bucket's bound counts
for the next bucket. Client libraries for Prometheus refuse such names and count such a value the other way.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Any, Generic, TypeVar

logger = logging.getLogger(__name__)

Labels = tuple[str, ...]
"""The values of a metric's labels, in the order of their names."""

CELL_LIMIT = 10_000
"""Combinations of label values that one metric holds: clients choose some, such as the names of unknown models."""

_NO_METRIC_NAME = re.compile(r"[^a-zA-Z0-9_]")
_NO_LABEL_NAME = re.compile(r"[^a-zA-Z0-9]")

C = TypeVar("C")


class Metric(ABC, Generic[C]):
    """One metric with a cell for each combination of label values that was used, at most CELL_LIMIT.

    `name` is TensorFlow's, such as `/tensorflow/serving/request_count`.
    """

    kind: str

    def __init__(self, name: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self._labels = tuple(labels)
        self._cells: dict[Labels, C] = {}
        self._full = False

    def lines(self) -> Iterator[str]:
        """What the page shows of this metric: its type, then its cells sorted by their label values."""
        name = exported_name(self.name)
        yield f"# TYPE {name} {self.kind}"
        for values in sorted(self._cells, key=_bytes):
            yield from self._cell_lines(name, _pairs(self._labels, values), self._cells[values])

    def first_value(self) -> int:
        """The integer of the first cell; 0 without one, and for a metric that holds no integers."""
        return self._integer(self._cells[min(self._cells, key=_bytes)]) if self._cells else 0

    def take(self) -> list[Any]:
        """What was counted, as JSON; it is not counted here any more."""
        cells, self._cells = self._cells, {}
        return [[list(values), self._state(cell)] for values, cell in cells.items()]

    def merge(self, taken: list[Any]) -> None:
        """Count what was taken from another process' metric of this kind."""
        for values, state in taken:
            cell = self._cell(tuple(values))
            if cell is not None:
                self._merge(cell, state)

    def _cell(self, values: Labels) -> C | None:
        """The cell for `values`, made where it is missing; None past the limit."""
        cell = self._cells.get(values)
        if cell is None and len(self._cells) < CELL_LIMIT:
            cell = self._cells[values] = self._new_cell()
        elif cell is None and not self._full:
            self._full = True
            logger.warning("the metric %s has %d combinations of labels and takes no more", self.name, CELL_LIMIT)
        return cell

    @abstractmethod
    def _new_cell(self) -> C: ...

    @abstractmethod
    def _cell_lines(self, name: str, pairs: str, cell: C) -> Iterator[str]:
        """The lines of one cell; `pairs` are its labels."""

    @abstractmethod
    def _state(self, cell: C) -> Any:
        """The cell as JSON."""

    @abstractmethod
    def _merge(self, cell: C, state: Any) -> None:
        """Add such a state."""

    def _integer(self, cell: C) -> int:
        return 0


class Counter(Metric[list[int]]):
    """A sum that only grows."""

    kind = "counter"

    def add(self, *values: str, by: int = 1) -> None:
        cell = self._cell(values)
        if cell is not None:
            cell[0] += by

    def _new_cell(self) -> list[int]:
        return [0]

    def _cell_lines(self, name: str, pairs: str, cell: list[int]) -> Iterator[str]:
        yield f"{name}{{{pairs}}} {cell[0]}"

    def _state(self, cell: list[int]) -> int:
        return cell[0]

    def _merge(self, cell: list[int], state: int) -> None:
        cell[0] += state

    def _integer(self, cell: list[int]) -> int:
        return cell[0]


class TextGauge(Metric[list[str]]):
    """A metric whose values are texts, of which TF Serving's page shows a 0."""

    kind = "gauge"

    def set(self, text: str, *values: str) -> None:
        cell = self._cell(values)
        if cell is not None:
            cell[:] = [text]

    def _new_cell(self) -> list[str]:
        return []

    def _cell_lines(self, name: str, pairs: str, cell: list[str]) -> Iterator[str]:
        yield f"{name}{{{pairs}}} 0"

    def _state(self, cell: list[str]) -> list[str]:
        return cell

    def _merge(self, cell: list[str], state: list[str]) -> None:
        cell[:] = state


class _Observations:
    """Counts by bucket, and the sum of the values."""

    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.sum = 0.0


class Histogram(Metric[_Observations]):
    """Counts of observed values by bucket. `bounds` are the buckets' exclusive upper bounds; one more has none."""

    kind = "histogram"

    def __init__(self, name: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        super().__init__(name, labels)
        self._bounds = tuple(bounds)
        self._printed = (*map(number, bounds), "+Inf")

    def observe(self, value: float, *values: str, times: int = 1) -> None:
        cell = self._cell(values)
        if cell is not None:
            cell.counts[bisect_right(self._bounds, value)] += times
            cell.sum += value * times

    def _new_cell(self) -> _Observations:
        return _Observations(len(self._printed))

    def _cell_lines(self, name: str, pairs: str, cell: _Observations) -> Iterator[str]:
        head = f"{name}_bucket{{{pairs}," if pairs else f"{name}_bucket{{"
        totals = list(accumulate(cell.counts))
        for bound, total in zip(self._printed, totals, strict=True):
            yield f'{head}le="{bound}"}} {total}'
        yield f"{name}_sum{{{pairs}}} {number(cell.sum)}"
        yield f"{name}_count{{{pairs}}} {totals[-1]}"

    def _state(self, cell: _Observations) -> list[Any]:
        return [cell.counts, cell.sum]

    def _merge(self, cell: _Observations, state: list[Any]) -> None:
        counts, total = state
        cell.counts[:] = map(add, cell.counts, counts)
        cell.sum += total


AnyMetric = Counter | TextGauge | Histogram


class Monitoring:
    """The metrics of one server. Used on one event loop, so it needs no lock."""

    def __init__(self, metrics: Sequence[AnyMetric]) -> None:
        self._metrics = {metric.name: metric for metric in sorted(metrics, key=lambda metric: metric.name)}

    def page(self) -> bytes:
        """Every metric in the order of the names, in UTF-8; bytes of a label that were no UTF-8 come out unchanged."""
        lines = [line for metric in self._metrics.values() for line in metric.lines()]
        return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")

    def first_value(self, name: str) -> int:
        """The integer of the first cell of the metric with that TensorFlow name, 0 where there is none."""
        metric = self._metrics.get(name)
        return metric.first_value() if metric is not None else 0

    def take(self) -> dict[str, Any]:
        """What was counted, by metric, as JSON; it is not counted here any more."""
        return {name: taken for name, metric in self._metrics.items() if (taken := metric.take())}

    def merge(self, taken: Mapping[str, Any]) -> None:
        """Count what was taken in another process."""
        for name, cells in taken.items():
            self._metrics[name].merge(cells)


def exponential(scale: float, growth: float, count: int) -> tuple[float, ...]:
    """`count` bounds, the first `scale`, each `growth` times the one before."""
    return tuple(accumulate([scale] + [growth] * (count - 1), lambda bound, factor: bound * factor))


def exported_name(name: str) -> str:
    """`/tensorflow/serving/request_count` as the page spells it."""
    return _with_first_letter(_NO_METRIC_NAME.sub(":", name))


def number(value: float) -> str:
    """A number with at most six significant digits, as absl::StrCat writes a double."""
    return f"{value:.6g}"


def _pairs(names: Labels, values: Labels) -> str:
    return ",".join(f'{_label_name(name)}="{_label_value(value)}"' for name, value in zip(names, values, strict=True))


def _label_name(name: str) -> str:
    return _with_first_letter(_NO_LABEL_NAME.sub("_", name))


def _label_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _with_first_letter(name: str) -> str:
    return f"_{name}" if name[:1].isdigit() else name


def _bytes(values: Labels) -> tuple[bytes, ...]:
    return tuple(value.encode("utf-8", "surrogateescape") for value in values)
