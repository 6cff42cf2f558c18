"""The calls in flight, by the copy that they were sent to."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from typing import NamedTuple

from bridge.triton.calls import CallError


class Copy(NamedTuple):
    """One Triton model on one Triton instance."""

    triton_name: str
    instance: str


class Flight:
    """One call in flight, used as a context manager around it in the task that waits for its answer."""

    def __init__(self, flights: Flights, copy: Copy, number: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.copy = copy
        self.number = number
        self.started = time.monotonic()
        self._flights = flights
        self._task = task
        self._cancelling = task.cancelling()
        self._error: CallError | None = None

    def fail(self, error: CallError) -> None:
        """End the call with `error`. The transport sees a cancellation."""
        if self._error is None:
            self._error = error
            self._task.cancel()

    def __enter__(self) -> Flight:
        self._flights.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._flights.remove(self)
        if self._error is not None and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise self._error from None


class Flights:
    """Registry of the flights of one router. Used on one event loop.

    A runner whose process died leaves its calls without an answer, so the first that learns of it ends the others.
    """

    def __init__(self) -> None:
        self._by_copy: dict[Copy, dict[int, Flight]] = {}
        self._numbers = itertools.count(1)

    def start(self, copy: Copy) -> Flight:
        """A flight for a call to `copy` that begins now; it counts from its `__enter__`."""
        return Flight(self, copy, next(self._numbers))

    def add(self, flight: Flight) -> None:
        self._by_copy.setdefault(flight.copy, {})[flight.number] = flight

    def remove(self, flight: Flight) -> None:
        flights = self._by_copy[flight.copy]
        del flights[flight.number]
        if not flights:
            del self._by_copy[flight.copy]

    def next_number(self) -> int:
        """The mark that `fail` takes: every flight so far is below it."""
        return next(self._numbers)

    def fail(self, copy: Copy, error: CallError, before: int) -> None:
        """End the flights to `copy` with numbers below `before`. Later ones may have met a new process."""
        for flight in list(self._by_copy.get(copy, {}).values()):
            if flight.number < before:
                flight.fail(error)

    def count(self, copy: Copy) -> int:
        """The calls to `copy` in flight."""
        return len(self._by_copy.get(copy, ()))

    def overdue(self, age: float) -> Iterator[Copy]:
        """The copies whose oldest call is older than `age` seconds."""
        limit = time.monotonic() - age
        for copy, flights in list(self._by_copy.items()):
            if next(iter(flights.values())).started < limit:
                yield copy
