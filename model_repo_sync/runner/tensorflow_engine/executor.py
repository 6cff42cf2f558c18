"""When a request runs: at once while the model is fast, on a bounded queue with threads while it is slow."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from .allocator import trim

logger = logging.getLogger(__name__)

FAST_SECONDS = 0.0005
"""A response sender costs about 0.15 ms, which threads earn back on runs longer than this."""

WEIGHT = 0.1
"""Of the newest run in the mean."""

IDLE_SECONDS = 1.0
"""After which a thread that has nothing to do gives back the memory that its requests took."""

STOP_SECONDS = 5.0


class RunTime:
    """The moving mean of a model's run time in seconds, over runs in either state.

    Threads may add at once; a lost update shifts the mean by one sample, which is why there is no lock.
    """

    def __init__(self) -> None:
        self._mean: float | None = None

    def add(self, seconds: float) -> None:
        mean = self._mean
        self._mean = seconds if mean is None else mean + WEIGHT * (seconds - mean)

    @property
    def is_short(self) -> bool:
        """Whether runs are fast; False until one was seen, so that a slow model never blocks its first callers."""
        return self._mean is not None and self._mean < FAST_SECONDS


class Service(Protocol):
    """How requests are answered; no call raises."""

    def answer(self, request: Any, waited: float = 0.0) -> Any:
        """The response to a request that was in the queue for `waited` seconds."""
        ...

    def is_immediate(self, request: Any) -> bool:
        """Whether the answer takes no time and must not wait in a queue."""
        ...

    def queue_full(self) -> Any: ...
    def send(self, sender: Any, response: Any) -> None: ...


class Waiting(NamedTuple):
    request: Any
    sender: Any
    since: float


class Executor:
    """Runs requests; `execute` is called by one thread, as Triton does.

    While runs are short, `execute` answers itself and Triton's queue holds what waits. Otherwise it queues at most
    `queue_size` requests for `threads` threads, and Triton sees an empty queue.
    """

    def __init__(
        self,
        service: Service,
        run_time: RunTime,
        threads: int,
        queue_size: int,
        clock: Callable[[], float] = time.monotonic,
        on_idle: Callable[[], object] = trim,
    ) -> None:
        self._on_idle = on_idle
        self._service = service
        self._run_time = run_time
        self._queue_size = queue_size
        self._clock = clock
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"run-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """The responses, or None where threads send them."""
        if self._run_time.is_short:
            return [self._service.answer(request) for request in requests]
        for request in requests:
            self._dispatch(request)
        return None

    def stop(self) -> bool:
        """End the threads once the queue is empty; False where one is still in a run after some seconds."""
        for _ in self._threads:
            self._queue.put(None)
        return join(self._threads)

    def _dispatch(self, request: Any) -> None:
        sender = request.get_response_sender()
        if self._service.is_immediate(request):
            self._send(sender, self._service.answer(request))
        elif self._queue.qsize() >= self._queue_size:  # exact: nobody else puts
            self._send(sender, self._service.queue_full())
        else:
            self._queue.put(Waiting(request, sender, self._clock()))

    def _work(self) -> None:
        idle = True
        while self._take(idle):
            idle = False

    def _take(self, idle: bool) -> bool:
        """Handle one request. A call of its own, so that no tensor outlives its request in a local variable."""
        waiting = self._queue.get() if idle else self._next()
        if waiting is None:
            return False
        waited = self._clock() - waiting.since
        self._send(waiting.sender, self._service.answer(waiting.request, waited))
        return True

    def _next(self) -> Waiting | None:
        try:
            return self._queue.get(timeout=IDLE_SECONDS)
        except Empty:
            self._on_idle()
            return self._queue.get()

    def _send(self, sender: Any, response: Any) -> None:
        try:
            self._service.send(sender, response)
        except Exception:
            logger.exception("A response could not be sent")


def join(threads: Sequence[threading.Thread]) -> bool:
    """Wait some seconds for the end of `threads`; whether all of them ended."""
    deadline = time.monotonic() + STOP_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)
