"""What is kept of denied calls: each is counted; the history gets single management calls, and sums of the rest."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client import Counter as Metric

from bridge.access.actors import actor
from bridge.access.denial import Denial
from bridge.access.identity import Identity, Kind, Scope
from bridge.clock import Clock
from bridge.registry.access_events import CallDenied, CallsDenied
from bridge.registry.events import Event
from bridge.registry.records import Actor

SECOND = 1_000_000
MINUTE = 60 * SECOND
SINGLY = 10
"""Management calls of one peer that a second may write into the history one by one."""
MOST_PEERS = 100
"""Peers whose pace is watched one by one; more of them share one."""
MOST_SUMS = 1000
"""Sums that one minute keeps apart; calls of yet other actors are summed up as those of OTHERS."""
OTHERS = "others"

Write = Callable[[Event, Actor], None]


class _Key(NamedTuple):
    minute: int
    actor: str
    source: str
    port: str
    method: str
    scope: str


@dataclass(slots=True)
class _Sum:
    first: int
    last: int
    codes: Counter[str] = field(default_factory=Counter)


class Denials:
    """Hears of every denied call. `write` appends an event to the history without waiting for it."""

    def __init__(self, write: Write, clock: Clock) -> None:
        self.metric = Metric(
            "bridge_denied_requests",
            "Denied requests by port, scope that was needed, and canonical status code",
            ("port", "scope", "code"),
            registry=None,
        )
        self._write = write
        self._clock = clock
        self._sums: dict[_Key, _Sum] = {}
        self._pace = Pace()

    def denied(self, denial: Denial) -> None:
        """A call was denied just now."""
        now = self._clock.now()
        self.metric.labels(denial.port, denial.scope, denial.code.name).inc()
        if denial.scope is Scope.MANAGE and self._pace.allows(denial.host, now):
            event = CallDenied(denial.port, denial.method, denial.scope, denial.code.name, denial.message)
            self._write(event, actor(_lasting(denial), denial.source, denial.metadata))
        else:
            self._add(denial, now)

    def flush(self, *, everything: bool = False) -> None:
        """Write the sums of the minutes that are over, or all there are."""
        current = self._clock.now() // MINUTE
        for key in [key for key in self._sums if everything or key.minute < current]:
            found = self._sums.pop(key)
            codes = dict(found.codes)
            event = CallsDenied(key.port, key.method, key.scope, found.codes.total(), codes, found.first, found.last)
            self._write(event, Actor(key.actor, key.source))

    async def run(self) -> None:
        """Flush at the end of each minute until cancelled."""
        while True:
            await asyncio.sleep((MINUTE - self._clock.now() % MINUTE) / SECOND)
            self.flush()

    def _add(self, denial: Denial, now: int) -> None:
        who = actor(_lasting(denial), denial.source, {})
        key = _Key(now // MINUTE, who.name, who.source, denial.port, denial.method, denial.scope)
        if key not in self._sums and len(self._sums) >= MOST_SUMS:
            key = key._replace(actor=OTHERS)
        found = self._sums.setdefault(key, _Sum(now, now))
        found.last = now
        found.codes[denial.code.name] += 1


class Pace:
    """Lets `SINGLY` calls of one peer pass in any second."""

    def __init__(self) -> None:
        self._times: dict[str, deque[int]] = {}

    def allows(self, peer: str, now: int) -> bool:
        """Whether one more call of `peer` at `now`, microseconds, may pass."""
        if peer not in self._times and len(self._times) >= MOST_PEERS:
            self._forget(now)
        key = peer if peer in self._times or len(self._times) < MOST_PEERS else OTHERS
        times = self._times.setdefault(key, deque(maxlen=SINGLY))
        if len(times) == SINGLY and now - times[0] < SECOND:
            return False
        times.append(now)
        return True

    def _forget(self, now: int) -> None:
        self._times = {peer: times for peer, times in self._times.items() if now - times[-1] < SECOND}


def _lasting(denial: Denial) -> Identity:
    """Who was denied; a peer without its port, so that its calls are counted together."""
    if denial.identity.kind is Kind.PEER:
        return Identity(denial.host, Kind.PEER)
    return denial.identity
