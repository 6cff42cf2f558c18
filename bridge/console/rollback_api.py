"""The resources of rollbacks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request

from bridge.console import questions
from bridge.errors import InvalidArgument
from bridge.lifecycle.operations import LARGEST_VERSION, Operations
from bridge.lifecycle.rollback_plan import RollbackPlan


class RollbackApi:
    """One method for each resource: converts, asks Operations, converts back."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def provenance(self, request: Request) -> Any:
        query = questions.parameters(request, "model", "version")
        questions.need(query, "model")
        text = query.get("version")
        version = questions.number(text, "version", 0, LARGEST_VERSION) if text else None
        found = await self._operations.provenance(query["model"], version)
        return {"provenance": [asdict(item) for item in found]}

    async def plan(self, request: Request) -> Any:
        """What a rollback would change; nothing happens."""
        return {"rollback": _plain(await self._operations.rollback_plan(*_question(request)))}

    async def run(self, request: Request) -> Any:
        subject, to = _question(request)
        plan = await self._operations.roll_back(subject, to, questions.actor(request))
        return {"changed": bool(plan.changes), "rollback": _plain(plan)}

    async def unpin(self, request: Request) -> Any:
        (model,) = questions.required(request, "model")
        return {"changed": await self._operations.unpin(model, questions.actor(request))}


def _question(request: Request) -> tuple[str, str]:
    query = questions.parameters(request, "subject", "to")
    if not query.get("subject"):
        raise InvalidArgument("the query parameter subject is missing")
    return query["subject"], query.get("to", "")


def _plain(plan: RollbackPlan) -> dict[str, Any]:
    return {**asdict(plan), "reference": plan.reference}
