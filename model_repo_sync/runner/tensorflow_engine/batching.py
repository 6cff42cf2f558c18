"""Requests merged into batches, as TF Serving does with --enable_batching."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from . import merging
from .batch_queue import Batch
from .batch_scheduler import BatchScheduler
from .batching_parameters import BatchingParameters
from .errors import CANCELLED, RESOURCE_EXHAUSTED, StatusError
from .feed import Array
from .merging import Feeds, Value

logger = logging.getLogger(__name__)

STALE_SECONDS = 0.1
"""Of a request that waited longer it is asked whether its client is still there, which costs 0.05 ms."""


class Service(Protocol):
    """The parts of the runner that batching is put together with."""

    def is_immediate(self, request: Any) -> bool:
        """Whether the answer takes no time and must not wait in a queue."""
        ...

    def answer(self, request: Any) -> Any:
        """The response to a request that is_immediate; does not raise."""
        ...

    def read(self, request: Any) -> tuple[list[str], Feeds]:
        """The graph tensors that are fetched, each once, and what is fed. Raises StatusError."""
        ...

    def run(self, feeds: Mapping[str, Sequence[Value]], fetches: Sequence[str], rows: int) -> list[Array]:
        """One session run; the values of an input are put one after the other. Raises StatusError."""
        ...

    def response(self, request: Any, outputs: Mapping[str, Array]) -> Any:
        """The response with what `request` fetches."""
        ...

    def error(self, failure: BaseException) -> Any: ...
    def send(self, sender: Any, response: Any) -> None: ...


class _Job:
    """A request while it is in the queue or runs, whole or in parts; times are those of the batcher's clock."""

    def __init__(self, service: Service, request: Any, now: float) -> None:
        self.request = request
        self.since = now
        self._service = service
        self._sender = request.get_response_sender()
        timeout_microseconds = request.timeout()
        self.deadline = now + timeout_microseconds / 1e6 if timeout_microseconds else float("inf")
        self._lock = threading.Lock()
        self._results: list[Mapping[str, Array] | None] = [None]
        self._left = 1
        self._failure: BaseException | None = None

    def expect(self, parts: int) -> None:
        """The request runs in so many parts."""
        self._results, self._left = [None] * parts, parts

    def finish(self, part: int, result: Mapping[str, Array] | BaseException) -> None:
        """Outputs or the failure of one part; the last one sends the response. The first failure is that of all."""
        with self._lock:
            if isinstance(result, BaseException):
                self._failure = self._failure or result
            else:
                self._results[part] = result
            self._left -= 1
            is_last = not self._left
        if is_last:
            self._send()

    def _send(self) -> None:
        try:
            self._service.send(self._sender, self._response())
        except Exception:
            logger.exception("A response could not be sent")

    def _response(self) -> Any:
        if self._failure is not None:
            return self._service.error(self._failure)
        try:
            return self._service.response(self.request, self._outputs())
        except BaseException as failure:
            return self._service.error(failure)

    def _outputs(self) -> Mapping[str, Array]:
        results = [result for result in self._results if result is not None]
        if len(results) == 1:
            return results[0]
        return {name: np.concatenate([result[name] for result in results]) for name in results[0]}


class _Part:
    """Rows of a job that run in one batch."""

    __slots__ = ("feeds", "index", "job", "size")

    def __init__(self, job: _Job, index: int, feeds: Feeds, size: int) -> None:
        self.job = job
        self.index = index
        self.feeds = feeds
        self.size = size

    def split(self, sizes: Sequence[int]) -> Sequence[_Part]:
        self.job.expect(len(sizes))
        parts, start = [], 0
        for index, size in enumerate(sizes):
            rows = slice(start, start + size)
            feeds = {name: Value(value.dtype, value.array[rows]) for name, value in self.feeds.items()}
            parts.append(_Part(self.job, index, feeds, size))
            start += size
        return parts

    def finish(self, result: Mapping[str, Array] | BaseException) -> None:
        self.job.finish(self.index, result)


Key = tuple[tuple[str, ...], tuple[str, ...]]
"""Sorted names of what is fed and what is fetched: only requests with equal ones run together."""


class Batcher:
    """Answers requests from threads of its own; `execute` is called by one thread, as Triton does."""

    def __init__(
        self, service: Service, parameters: BatchingParameters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._parameters = parameters
        self._clock = clock
        self._scheduler: BatchScheduler[Key, _Part] = BatchScheduler(parameters, self._process, clock)

    def execute(self, requests: Sequence[Any]) -> None:
        """Take requests into the queues; every response is sent by its sender."""
        for request in requests:
            if self._service.is_immediate(request):
                self._service.send(request.get_response_sender(), self._service.answer(request))
            else:
                self._enqueue(request)

    def stop(self) -> bool:
        """End the threads once the queues are empty; False where one is still in a run after some seconds."""
        return self._scheduler.stop()

    def _enqueue(self, request: Any) -> None:
        job = _Job(self._service, request, self._clock())
        try:
            fetches, feeds = self._service.read(request)
            part = _Part(job, 0, feeds, merging.row_count(feeds))
            self._scheduler.schedule((tuple(sorted(feeds)), tuple(sorted(fetches))), part)
        except BaseException as failure:
            job.finish(0, failure)

    def _process(self, key: Key, batch: Batch[_Part]) -> None:
        parts = [part for part in batch.tasks if not self._is_abandoned(part)]
        if not parts:
            return
        try:
            if all(part.job.deadline <= self._clock() for part in parts):
                raise StatusError(RESOURCE_EXHAUSTED, "Run() timeout exceeded while waiting in batching queue")
            self._run(key, parts)
        except BaseException as failure:
            for part in parts:
                part.finish(failure)

    def _is_abandoned(self, part: _Part) -> bool:
        """Whether the client is gone, which ends the part."""
        if self._clock() - part.job.since < STALE_SECONDS or not part.job.request.is_cancelled():
            return False
        part.finish(StatusError(CANCELLED, "The client cancelled the request while it waited"))
        return True

    def _run(self, key: Key, parts: Sequence[_Part]) -> None:
        """Run `parts` together and finish them. A failure leaves all of them unfinished."""
        names, fetches = key
        rows = self._parameters.padded_size(sum(part.size for part in parts))
        feeds = {name: self._merged(name, parts, rows) for name in names}
        try:
            outputs = self._service.run(feeds, fetches, rows)
        except StatusError:
            if len(parts) == 1 or not self._parameters.isolate_failures:
                raise
            self._run_each(key, parts)
            return
        sizes = [part.size for part in parts]
        split = [merging.split(output, rows, sizes) for output in outputs]
        for part, arrays in zip(parts, zip(*split, strict=True), strict=True):
            part.finish(dict(zip(fetches, arrays, strict=True)))

    def _run_each(self, key: Key, parts: Sequence[_Part]) -> None:
        for part in parts:
            try:
                self._run(key, [part])
            except BaseException as failure:
                part.finish(failure)

    def _merged(self, name: str, parts: Sequence[_Part], rows: int) -> list[Value]:
        values = [part.feeds[name] for part in parts]
        arrays = merging.merge(name, values, rows, pad=self._parameters.pad_variable_length_inputs)
        return [Value(values[0].dtype, array) for array in arrays]
