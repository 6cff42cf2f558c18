"""What workers count, summed up in the control process.

A worker sends `tally`, what it counted since it sent the last one, now and then; asked by `collect` (a number) it does
so at once and confirms by `collected`. What a killed worker had sent stays counted, so no sum ever shrinks.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Mapping

from bridge.request_parts import Meters
from bridge.serving.lines import Lines
from bridge.serving.link import Router, Word

logger = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds between two tallies of a busy worker."""
PATIENCE = 1.0
"""Seconds that a page waits for a worker that is stopped or stuck."""


class TallyClient:
    """A worker's end."""

    def __init__(self, meters: Meters, lines: Lines) -> None:
        self._meters = meters
        self._lines = lines

    async def run(self) -> None:
        """Send tallies until cancelled."""
        while True:
            await asyncio.sleep(PAUSE)
            self.send()

    def collect(self, document: bytes) -> None:
        """The control process wants to know now."""
        self.send()
        self._lines.send("collected", document)

    def send(self) -> None:
        """Send what was counted since the last time."""
        taken = self._meters.take()
        if taken:
            self._lines.send("tally", json.dumps(taken).encode())


class TallyServer:
    """The control process' end: adds to `meters`. `routers` tells the workers of the moment."""

    def __init__(self, meters: Meters, routers: Callable[[], frozenset[Router]]) -> None:
        self._meters = meters
        self._routers = routers
        self._numbers = itertools.count()
        self._collected: dict[tuple[Router, int], asyncio.Event] = {}

    @property
    def words(self) -> Mapping[str, Word]:
        """What to do with a worker's messages."""
        return {"tally": self._add, "collected": self._confirm}

    def forget(self, router: Router) -> None:
        """A worker is gone."""
        for (of, _), event in self._collected.items():
            if of is router:
                event.set()

    async def collect(self) -> None:
        """Have everything counted that workers have counted by now."""
        number = next(self._numbers)
        asked = {(router, number): asyncio.Event() for router in self._routers()}
        self._collected |= asked
        try:
            for router, _ in asked:
                router.send("collect", json.dumps(number).encode())
            async with asyncio.timeout(PATIENCE):
                for event in asked.values():
                    await event.wait()
        except TimeoutError:
            logger.warning("a worker did not tell its counts within %g s", PATIENCE)
        finally:
            for key in asked:
                del self._collected[key]

    def _add(self, router: Router, document: bytes) -> None:
        self._meters.merge(json.loads(document))

    def _confirm(self, router: Router, document: bytes) -> None:
        event = self._collected.get((router, json.loads(document)))
        if event is not None:
            event.set()
