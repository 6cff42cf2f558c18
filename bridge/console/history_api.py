"""The admin API's resources of the history: `history`, `history/at`, `history/diff`, `history/live`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request

from bridge.console import questions
from bridge.lifecycle.history_operations import HistoryFilter, HistoryOperations

EVENTS_PER_PAGE = 100
MAX_EVENTS_PER_PAGE = 1000
LARGEST = 2**63 - 1


class HistoryApi:
    """One method for each resource: converts, asks HistoryOperations, converts back. Times in answers are
    microseconds UTC."""

    def __init__(self, operations: HistoryOperations) -> None:
        self._operations = operations

    async def history(self, request: Request) -> Any:
        query = questions.parameters(request, "subject", "from", "until", "actor", "action", "after", "before", "limit")
        wanted = HistoryFilter(
            subject=query.get("subject", ""),
            since=query.get("from", ""),
            until=query.get("until", ""),
            actor=query.get("actor", ""),
            action=query.get("action", ""),
            after=questions.number(query.get("after", "0"), "after", 0, LARGEST),
            limit=questions.number(query.get("limit", str(EVENTS_PER_PAGE)), "limit", 1, MAX_EVENTS_PER_PAGE),
            before=questions.number(query["before"], "before", 1, LARGEST) if query.get("before") else None,
        )
        return {"history": [asdict(event) for event in await self._operations.history(wanted)]}

    async def at(self, request: Request) -> Any:
        query = questions.parameters(request, "time", "subject")
        questions.need(query, "time")
        return {"state": asdict(await self._operations.at(query["time"], query.get("subject", "")))}

    async def diff(self, request: Request) -> Any:
        query = questions.parameters(request, "from", "to", "subject")
        questions.need(query, "from", "to")
        found = await self._operations.diff(query["from"], query["to"], query.get("subject", ""))
        return {"diff": asdict(found)}

    async def live(self, request: Request) -> Any:
        query = questions.parameters(request, "subject", "version")
        questions.need(query, "subject")
        version = questions.number(query["version"], "version", 0, LARGEST) if query.get("version") else None
        return {"live": [asdict(interval) for interval in await self._operations.live(query["subject"], version)]}
