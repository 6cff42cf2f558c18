"""The pages of rollbacks: what one would change, and then the way back."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bridge.console import questions
from bridge.console.pages import event_view
from bridge.console.pages.event_view import EventView, subject_url
from bridge.console.pages.renderer import Renderer, url
from bridge.errors import BridgeError
from bridge.lifecycle.history_operations import HistoryFilter
from bridge.lifecycle.operations import Operations
from bridge.lifecycle.rollback_plan import RollbackPlan

KINDS = ("model:", "label:", "vmodel:")
SUBJECTS_OFFERED = 200


class RollbackPages:
    """Nothing happens before a plan was shown: what is confirmed names the event that the plan goes back to."""

    def __init__(self, renderer: Renderer, operations: Operations) -> None:
        self._renderer = renderer
        self._operations = operations

    async def preview(self, request: Request) -> Response:
        query = questions.parameters(request, "subject", "to", "done")
        subject, to = query.get("subject", "").strip(), query.get("to", "").strip()
        page: dict[str, Any] = {"subject": subject, "to": to, "plan": None, "sentence": "", "status": 200, "done": None}
        try:
            if subject and query.get("done"):
                page["done"] = await self._done(subject)
            elif subject:
                page |= _shown(await self._operations.rollback_plan(subject, to))
        except BridgeError as error:
            page |= {"sentence": error.message, "status": error.http_status}
        return await self._page(request, page)

    async def run(self, request: Request) -> Response:
        fields = await questions.form(request, "subject", "to", "reason")
        subject, to = fields["subject"], fields["to"]
        try:
            await self._operations.roll_back(subject, to, questions.actor(request, fields["reason"].strip()))
        except BridgeError as error:
            page = {"subject": subject, "to": to, "plan": None, "done": None}
            return await self._page(request, {**page, "sentence": error.message, "status": error.http_status})
        return RedirectResponse(url("/rollback", subject=subject, done=1), 303)

    async def unpin(self, request: Request) -> Response:
        fields = await questions.form(request, "model")
        await self._operations.unpin(fields["model"], questions.actor(request))
        return RedirectResponse(subject_url(f"model:{fields['model']}"), 303)

    async def _done(self, subject: str) -> EventView | None:
        """What the history says of the last rollback of a subject."""
        found = await self._operations.history.history(HistoryFilter(subject=subject, action="rolled back", limit=1))
        return event_view.view(found[0]) if found else None

    async def _page(self, request: Request, page: dict[str, Any]) -> Response:
        history = self._operations.history
        offered = [subject for kind in KINDS for subject in await history.subjects(kind)]
        return self._renderer.page("rollback.html", request.scope, **page, subjects=offered[:SUBJECTS_OFFERED])


def _shown(plan: RollbackPlan) -> dict[str, Any]:
    return {"plan": plan, "differences": event_view.of_changes(plan.changes)}
