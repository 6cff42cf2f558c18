"""The admin API's resources about the integrity of the history: `verify`, `export/events`, `export/anchor`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bridge import moments
from bridge.console import questions
from bridge.lifecycle.integrity_operations import IntegrityOperations
from bridge.registry import anchors

LINES_AT_ONCE = 200


class IntegrityApi:
    """One method for each resource: converts, asks IntegrityOperations, converts back."""

    def __init__(self, operations: IntegrityOperations) -> None:
        self._operations = operations

    async def verify(self, request: Request) -> Any:
        """The query parameter `anchor` is an anchor as JSON."""
        query = questions.parameters(request, "anchor")
        anchor = anchors.loads(query["anchor"]) if query.get("anchor") else None
        return await self._operations.verify(anchor)

    async def anchor(self, request: Request) -> Any:
        questions.parameters(request)
        return (await self._operations.anchor()).to_json()

    async def events(self, request: Request) -> Response:
        """JSON lines from the time `from` on, before the time `until`. A last line that is missing tells of a fault."""
        query = questions.parameters(request, "from", "until")
        now = time.time_ns() // 1000
        since, until = (moments.parse(query[name], now) if query.get(name) else None for name in ("from", "until"))
        lines = await self._operations.export(since, until)
        return StreamingResponse(_chunks(lines), media_type="application/x-ndjson")


def _chunks(lines: Iterator[str]) -> Iterator[bytes]:
    """Some lines at a time, since each chunk goes through a thread."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == LINES_AT_ONCE:
            yield "".join(f"{item}\n" for item in chunk).encode()
            chunk.clear()
    yield "".join(f"{item}\n" for item in chunk).encode()
