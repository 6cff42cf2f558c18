"""The threads that run batches, shared by the queues of all combinations of feeds and fetches."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .batch_queue import Batch, BatchQueue, T
from .batching_parameters import BatchingParameters
from .executor import join

logger = logging.getLogger(__name__)


K = TypeVar("K", bound=Hashable)


class BatchScheduler(Generic[K, T]):
    """Hands each batch and its key to `process`, on as many threads as the parameters say.

    `process` has to catch its errors. A queue is there only while it holds tasks, since clients choose what they fetch
    and so how many there are.
    """

    def __init__(
        self,
        parameters: BatchingParameters,
        process: Callable[[K, Batch[T]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parameters = parameters
        self._process = process
        self._clock = clock
        self._queues: dict[K, BatchQueue[T]] = {}
        self._news = threading.Condition()
        self._stopping = False
        count = parameters.num_batch_threads or len(os.sched_getaffinity(0))
        self._threads = [
            threading.Thread(target=self._work, name=f"{parameters.thread_pool_name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def schedule(self, key: K, task: T) -> None:
        """Let `task` run with others of the same `key`. Raises StatusError if the queue does not take it."""
        with self._news:
            queue = self._queues.get(key) or BatchQueue(self._parameters)
            queue.add(task, self._clock())
            self._queues[key] = queue
            self._news.notify()

    def stop(self) -> bool:
        """End the threads once the queues are empty; False where one is still in a run after some seconds."""
        with self._news:
            self._stopping = True
            self._news.notify_all()
        return join(self._threads)

    def _work(self) -> None:
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """Run one batch. A call of its own, so that no tensor outlives its batch in a local variable."""
        found = self._next()
        if found is None:
            return False
        key, batch = found
        try:
            self._process(key, batch)
        except Exception:
            logger.exception("A batch of %d requests was lost", len(batch.tasks))
        return True

    def _next(self) -> tuple[K, Batch[T]] | None:
        """The next batch and its key, None at the end. Waits for one."""
        with self._news:
            while True:
                now = self._clock()
                found = self._take(now)
                if found is not None:
                    if self._queues:
                        self._news.notify()
                    return found
                if self._stopping and not self._queues:
                    return None
                self._news.wait(self._pause(now))

    def _take(self, now: float) -> tuple[K, Batch[T]] | None:
        """A batch of the first queue that has one; that queue comes last the next time."""
        for key, queue in self._queues.items():
            batch = queue.take(float("inf") if self._stopping else now)
            if batch is not None:
                del self._queues[key]
                if queue.due_in(now) is not None:
                    self._queues[key] = queue
                return key, batch
        return None

    def _pause(self, now: float) -> float | None:
        """Seconds until the next batch is due; None where only a task can change that."""
        pauses = [pause for queue in self._queues.values() if (pause := queue.due_in(now)) is not None]
        return min(pauses, default=None)
