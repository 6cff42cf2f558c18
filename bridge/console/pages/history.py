"""The pages of the history: events by filter, and what was at a time."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bridge.console import questions
from bridge.console.pages import event_view
from bridge.console.pages.event_view import Difference
from bridge.console.pages.renderer import Renderer
from bridge.errors import BridgeError
from bridge.lifecycle.history_operations import HistoryFilter
from bridge.lifecycle.operations import Operations
from bridge.registry import slots
from bridge.registry.history_records import SubjectState

EVENTS_PER_PAGE = 50
SUBJECTS_OFFERED = 200
LARGEST = 2**63 - 1
FIELDS = ("subject", "actor", "action", "from", "until")
ACTIONS = sorted({action for actions in slots.ACTIONS.values() for action in actions} | {"version observed"})
"""What is offered as an action; any other may be asked for as well."""


class HistoryPages:
    def __init__(self, renderer: Renderer, operations: Operations) -> None:
        self._renderer = renderer
        self._operations = operations

    async def events(self, request: Request) -> Response:
        query = questions.parameters(request, *FIELDS, "before")
        history, fields = self._operations.history, {name: query.get(name, "").strip() for name in FIELDS}
        page: dict[str, Any] = {"fields": fields, "events": [], "older": None, "sentence": "", "status": 200}
        page |= {"subjects": (await history.subjects())[:SUBJECTS_OFFERED], "actions": ACTIONS}
        page |= {"seq": await history.newest(), "newest": "before" not in query}
        try:
            found = await history.history(_filter(fields, query.get("before", "")))
        except BridgeError as error:
            page |= {"sentence": error.message, "status": error.http_status}
        else:
            page["events"] = [event_view.view(event) for event in found[:EVENTS_PER_PAGE]]
            page["older"] = found[EVENTS_PER_PAGE - 1].seq if len(found) > EVENTS_PER_PAGE else None
        return self._renderer.page("history.html", request.scope, **page)

    async def at(self, request: Request) -> Response:
        """What was at a time, and with a second time what differs then."""
        query = questions.parameters(request, "time", "to", "subject")
        time, to, subject = (query.get(name, "").strip() for name in ("time", "to", "subject"))
        history = self._operations.history
        page: dict[str, Any] = {"time": time, "to": to, "subject": subject, "sentence": "", "status": 200}
        page |= {"state": None, "served": [], "known": [], "diff": None}
        page["subjects"] = (await history.subjects())[:SUBJECTS_OFFERED]
        try:
            if time and to:
                diff = await history.diff(time, to, subject)
                page["diff"] = [(item, event_view.of_changes(item.changes)) for item in diff.subjects]
            elif time:
                state = await history.at(time, subject)
                page |= {"state": state, "served": [item for item in state.subjects if _is_served(item)]}
                page["known"] = [(item, _wanted(item)) for item in state.subjects if subject or item.wanted is not None]
        except BridgeError as error:
            page |= {"sentence": error.message, "status": error.http_status}
        return self._renderer.page("at.html", request.scope, **page)


def _filter(fields: dict[str, str], before: str) -> HistoryFilter:
    """One event more than a page holds tells whether there is another page."""
    return HistoryFilter(
        subject=fields["subject"],
        since=fields["from"],
        until=fields["until"],
        actor=fields["actor"],
        action=fields["action"],
        limit=EVENTS_PER_PAGE + 1,
        before=questions.number(before, "before", 1, LARGEST) if before else None,
    )


def _wanted(item: SubjectState) -> tuple[Difference, ...]:
    """What was wanted, value by value."""
    return event_view.differences(None, item.wanted.state) if item.wanted is not None else ()


def _is_served(item: SubjectState) -> bool:
    return item.live is not None and item.live.state is not None
