"""Which copies failed lately: a circuit breaker per copy, so that requests avoid a dead one until it is back."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bridge.serving.flights import Copy
from bridge.serving.routes import Routes

BACKOFF = 0.25
"""Seconds until a copy that could not be reached is tried again; doubled with each failure up to LONGEST_BACKOFF."""
LONGEST_BACKOFF = 5.0
"""Also the first back-off of a dead runner: Triton never restarts one, so only the control plane brings it back."""


@dataclass
class _Breaker:
    """Open until `retry_at`; then one request may try the copy."""

    retry_at: float
    backoff: float


class CopyHealth:
    """Breakers of the copies that failed. A copy is used again when one request succeeded on it, or when the control
    plane withdrew it and publishes it anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._breakers: dict[Copy, _Breaker] = {}
        self._since: dict[Copy, int] = {}
        self._news = asyncio.Event()

    def admits(self, copy: Copy) -> bool:
        """Whether a request may use `copy` now. A yes after the back-off is for that one request."""
        breaker = self._breakers.get(copy)
        if breaker is None:
            return True
        now = self._clock()
        if now < breaker.retry_at:
            return False
        breaker.backoff = min(2 * breaker.backoff, LONGEST_BACKOFF)
        breaker.retry_at = now + breaker.backoff
        return True

    def failed(self, copy: Copy, backoff: float = BACKOFF) -> None:
        """A request found `copy` dead; the next one may try it after `backoff` seconds."""
        self._breakers.setdefault(copy, _Breaker(self._clock() + backoff, backoff))

    def succeeded(self, copy: Copy) -> None:
        """`copy` answered, if only with an error of the model's."""
        if self._breakers and self._breakers.pop(copy, None) is not None:
            self._tell()

    def observe(self, routes: Routes, number: int) -> None:
        """Learn from a snapshot: trust the copies that came back after they were withdrawn. `number` marks the time."""
        destinations = list(routes.destinations())
        listed = {Copy(item.triton_name, name) for item in destinations for name in item.instances}
        for copy in listed - self._since.keys():
            self._breakers.pop(copy, None)
        self._since = {copy: self._since.get(copy, number) for copy in listed}
        names = {item.triton_name for item in destinations}
        self._breakers = {copy: breaker for copy, breaker in self._breakers.items() if copy.triton_name in names}
        self._tell()

    def is_stale(self, copy: Copy, number: int) -> bool:
        """Whether a call that began at `number` says nothing of `copy`, since that came back later as a new process."""
        return number < self._since.get(copy, 0)

    async def news(self, copies: Iterable[Copy], timeout: float) -> None:
        """Wait until another look at `copies` can pay: a new snapshot, a copy that answered, the end of a back-off."""
        breakers = [self._breakers[copy] for copy in copies if copy in self._breakers]
        retry_at = min((breaker.retry_at for breaker in breakers), default=math.inf)
        wait = min(timeout, max(retry_at - self._clock(), 0.001))
        try:
            async with asyncio.timeout(wait):
                await self._news.wait()
        except TimeoutError:
            pass

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
