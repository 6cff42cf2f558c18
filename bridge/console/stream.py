"""Events as they happen, as server-sent events. None is lost: ids are sequence numbers, and who connects again says
from which one to go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bridge.console import questions
from bridge.errors import BridgeError, Code
from bridge.lifecycle.history_operations import HistoryOperations
from bridge.registry.records import EventRecord

POLL_SECONDS = 0.5
"""How often the database is asked for news while somebody listens, for all listeners together."""
BEAT_SECONDS = 15.0
"""How long a stream is silent at most, so that both ends find out when the other one is gone."""
LIFE_SECONDS = 300.0
"""After which a stream ends and its listener connects again, so that who may not listen any more does not."""
EVENTS_PER_READ = 200
LISTENERS = 64
LARGEST = 2**63 - 1
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Listeners:
    """Everybody who listens to one port; `close` ends their streams, which would hold up the end of the port."""

    def __init__(self, limit: int = LISTENERS) -> None:
        self.closed = asyncio.Event()
        self._limit = limit
        self._count = 0

    def close(self) -> None:
        self.closed.set()

    def require_room(self) -> None:
        """Raises RESOURCE_EXHAUSTED for one too many."""
        if self._count >= self._limit:
            raise BridgeError(f"{self._limit} streams are open, which is the most.", Code.RESOURCE_EXHAUSTED)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """One listener, for as long as this lasts."""
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class EventStream:
    """The resource `stream` of the admin API."""

    def __init__(self, operations: HistoryOperations, listeners: Listeners) -> None:
        self._operations = operations
        self._listeners = listeners
        self._lock = asyncio.Lock()
        self._newest = 0
        self._due = 0.0

    async def stream(self, request: Request) -> Response:
        """Raises BridgeError before anything is sent."""
        begin = await self._begin(request)
        self._listeners.require_room()
        return StreamingResponse(self._messages(begin), headers=HEADERS, media_type="text/event-stream")

    async def _begin(self, request: Request) -> int:
        """Past which event the stream begins. A browser that connects again repeats the query of the first time."""
        query = questions.parameters(request, "after")
        last = request.headers.get("last-event-id", "")
        if last:
            return questions.number(last, "Last-Event-ID", 0, LARGEST)
        if query.get("after"):
            return questions.number(query["after"], "after", 0, LARGEST)
        return await self._operations.newest()

    async def _messages(self, seq: int) -> AsyncIterator[bytes]:
        with self._listeners.listening():
            yield b"retry: 1000\n\n"
            begun = said = time.monotonic()
            while not self._listeners.closed.is_set() and time.monotonic() - begun < LIFE_SECONDS:
                for event in await self._past(seq):
                    seq, said = event.seq, time.monotonic()
                    yield _message(event)
                if time.monotonic() - said >= BEAT_SECONDS:
                    said = time.monotonic()
                    yield b": still here\n\n"
                await self._pause()

    async def _past(self, seq: int) -> tuple[EventRecord, ...]:
        """Nothing while the database does not answer: the stream goes on when it does again."""
        try:
            return await self._operations.past(seq, EVENTS_PER_READ) if await self._news() > seq else ()
        except BridgeError:
            return ()

    async def _news(self) -> int:
        """The newest sequence number, at most POLL_SECONDS old."""
        async with self._lock:
            if time.monotonic() >= self._due:
                self._newest = await self._operations.newest()
                self._due = time.monotonic() + POLL_SECONDS
            return self._newest

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._listeners.closed.wait()
        except TimeoutError:
            pass


def _message(event: EventRecord) -> bytes:
    # orjson writes no line break, which would end the field.
    return b"id: %d\nevent: change\ndata: %s\n\n" % (event.seq, orjson.dumps(asdict(event)))
