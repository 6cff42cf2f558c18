"""The requests that wait for a run with the same feeds and fetches, as TF Serving's scheduler groups them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from .batching_parameters import BatchingParameters
from .errors import INVALID_ARGUMENT, UNAVAILABLE, StatusError

FULL = "The batch scheduling queue to which this task was submitted is full; "


class Task(Protocol):
    """A request, or a part of one; `size` counts rows."""

    @property
    def size(self) -> int: ...

    def split(self, sizes: Sequence[int]) -> Sequence[Self]:
        """Parts of these sizes, whose sum is that of the task."""


T = TypeVar("T", bound=Task)


@dataclass(slots=True)
class Batch(Generic[T]):
    """Tasks that run together. `opened` is the time at which the first one came."""

    tasks: list[T] = field(default_factory=list)
    size: int = 0
    opened: float = 0.0

    def add(self, task: T, now: float) -> None:
        if not self.tasks:
            self.opened = now
        self.tasks.append(task)
        self.size += task.size


class BatchQueue(Generic[T]):
    """Batches in the order of their tasks; the last one is open. Times are seconds. Not safe for threads.

    A batch without tasks counts as enqueued where it is the open one, as in TF Serving's sentences.
    """

    def __init__(self, parameters: BatchingParameters) -> None:
        self._parameters = parameters
        self._limit = parameters.execution_limit
        self._timeout = parameters.batch_timeout_micros / 1e6
        self._batches: deque[Batch[T]] = deque([Batch()])

    def add(self, task: T, now: float) -> None:
        """Put `task` into the open batch, into a new one where it has no room, or its parts into several.

        Raises StatusError if the task is too large or the queue is full.
        """
        self._check(task)
        for part in self._parts(task):
            if self._open.size + part.size > self._limit:
                self._batches.append(Batch())
            self._open.add(part, now)

    def take(self, now: float) -> Batch[T] | None:
        """The next batch that is full, or open for long enough."""
        if len(self._batches) == 1 and self.due_in(now) == 0:
            self._batches.append(Batch())
        return self._batches.popleft() if len(self._batches) > 1 else None

    def due_in(self, now: float) -> float | None:
        """Seconds until `take` gives a batch, 0 if it does now; None for an empty queue."""
        if len(self._batches) > 1:
            return 0.0
        if not self._open.tasks:
            return None
        return 0.0 if self._open.size >= self._limit else max(0.0, self._open.opened + self._timeout - now)

    @property
    def _open(self) -> Batch[T]:
        return self._batches[-1]

    def _parts(self, task: T) -> Sequence[T]:
        room = self._limit - self._open.size
        if task.size <= room or not self._parameters.enable_large_batch_splitting:
            return [task]
        sizes = [room] if room > 0 else []
        while (rest := task.size - sum(sizes)) > 0:
            sizes.append(min(rest, self._limit))
        return task.split(sizes)

    def _check(self, task: T) -> None:
        most = self._parameters.max_batch_size
        if task.size > most:
            raise StatusError(INVALID_ARGUMENT, f"Task size {task.size} is larger than maximum input batch size {most}")
        if self._parameters.enable_large_batch_splitting:
            self._check_capacity(task)
        elif self._open.size + task.size > most and len(self._batches) >= self._parameters.max_enqueued_batches:
            raise StatusError(
                UNAVAILABLE,
                f"{FULL}currently {len(self._batches)} batches enqueued and max_enqueued_batches is "
                f"{self._parameters.max_enqueued_batches}",
            )

    def _check_capacity(self, task: T) -> None:
        enqueued, most = len(self._batches), self._parameters.max_enqueued_batches
        capacity = (most - enqueued) * self._limit + self._limit - self._open.size
        if task.size > capacity:
            raise StatusError(
                UNAVAILABLE,
                f"{FULL}task size is {task.size} but scheduling capacity is only {capacity} "
                f"(num_enqueued_batches={enqueued}, max_enqueued_batches={most}, "
                f"open_batch_size={self._open.size}, max_execution_batch_size={self._limit})",
            )
