"""What a runner did since it was loaded."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Statistics:
    """Counts requests and session runs; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = 0
        self._runs = 0
        self._batch_sizes: Counter[int] = Counter()

    def asked(self) -> None:
        """A request came that wants more than the description."""
        with self._lock:
            self._requests += 1

    def ran(self) -> None:
        """A request came and is about to run by itself: `asked` and a run in one step."""
        with self._lock:
            self._requests += 1
            self._runs += 1

    def ran_batch(self, rows: int) -> None:
        """A batch of `rows`, padding included, is about to run."""
        with self._lock:
            self._runs += 1
            self._batch_sizes[rows] += 1

    def totals(self) -> dict[str, Any]:
        """`requests`, `runs`, and `batch_sizes`: how many batches ran by their rows."""
        with self._lock:
            sizes = {str(rows): count for rows, count in sorted(self._batch_sizes.items())}
            return {"requests": self._requests, "runs": self._runs, "batch_sizes": sizes}
