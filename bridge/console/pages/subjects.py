"""The pages of one model and of one vmodel: what it is, when it was what, what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bridge.console import questions
from bridge.console.pages import event_view, timeline
from bridge.console.pages.event_view import EventView
from bridge.console.pages.overview import policy_text
from bridge.console.pages.renderer import Renderer
from bridge.console.pages.timeline import DAY, HOUR, Moment, Timeline
from bridge.errors import InvalidArgument, NotFound
from bridge.lifecycle.history_operations import HistoryFilter, HistoryOperations
from bridge.lifecycle.operations import ModelView, Operations
from bridge.modelmesh.operations import ModelMeshOperations, RegisteredModelView
from bridge.registry.history_records import LiveInterval

SPANS = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30 * DAY, "all": None}
"""Windows of a timeline by name, in microseconds."""
EVENTS_SHOWN = 20
EVENTS_SEARCHED = 500
"""The newest events of a subject, among which its failures are found."""
MOVES_SHOWN = 300
"""Of each lane, the latest."""
LANES = 24
"""Of labels and of versions."""
INTERVALS_SHOWN = 100

Lanes = Mapping[str, Sequence[LiveInterval]]


class SubjectPages:
    """Raises NotFound for what neither exists nor ever did."""

    def __init__(self, renderer: Renderer, operations: Operations, modelmesh: ModelMeshOperations) -> None:
        self._renderer = renderer
        self._operations = operations
        self._modelmesh = modelmesh

    async def model(self, request: Request) -> Response:
        name, window = _question(request, "name")
        subject = f"model:{name}"
        newest = await self._operations.history.newest()
        model, registered = await self._present(name)
        return self._renderer.page(
            "model.html",
            request.scope,
            **await self._past(subject, window),
            name=name,
            model=model,
            registered=registered,
            policy=policy_text(model.policy) if model is not None else "",
            versions=await self._operations.versions(name) if model is not None else [],
            labels=await self._operations.labels(name) if model is not None else [],
            seq=newest,
        )

    async def vmodel(self, request: Request) -> Response:
        id, window = _question(request, "id")
        newest = await self._operations.history.newest()
        try:
            [vmodel] = await self._modelmesh.vmodels(id)
        except NotFound:
            vmodel = None
        past = await self._past(f"vmodel:{id}", window)
        return self._renderer.page("vmodel.html", request.scope, **past, name=id, vmodel=vmodel, seq=newest)

    async def _present(self, name: str) -> tuple[ModelView | None, RegisteredModelView | None]:
        """The model as the configuration has it, or as ModelMesh clients registered it."""
        try:
            return (await self._operations.models(name))[0], None
        except NotFound:
            pass
        try:
            return None, (await self._modelmesh.registered_models(name))[0]
        except NotFound:
            return None, None

    async def _past(self, subject: str, window: str) -> dict[str, Any]:
        """What both pages show of the past."""
        history = self._operations.history
        lanes = await _lanes(history, subject)
        events = await history.history(HistoryFilter(subject=subject, limit=EVENTS_SEARCHED))
        views = [event_view.view(event) for event in events]
        failures = [view for view in views if view.trouble]
        return {
            "subject": subject,
            "window": window,
            "windows": list(SPANS),
            "timeline": _timeline(lanes, failures, history.now(), window),
            "intervals": _newest_first(lanes),
            "events": views[:EVENTS_SHOWN],
            "failures": failures[:EVENTS_SHOWN],
        }


async def _lanes(history: HistoryOperations, subject: str) -> dict[str, Sequence[LiveInterval]]:
    """What a subject resolved to: what requests got without a version, and of a model its labels and versions."""
    live = await history.live(subject, latest=MOVES_SHOWN)
    kind, _, name = subject.partition(":")
    if kind != "model":
        return {"requests": live}
    lanes: dict[str, Sequence[LiveInterval]] = {"no version": live}
    prefix = f"label:{name}/"
    for label in (await history.subjects(prefix))[:LANES]:
        lanes[f"label {label.removeprefix(prefix)}"] = await history.live(label, latest=MOVES_SHOWN)
    versions = timeline.by_version(await history.moves(subject, MOVES_SHOWN))
    return lanes | {f"version {version}": versions[version] for version in list(versions)[:LANES]}


def _timeline(lanes: Lanes, failures: Sequence[EventView], now: int, window: str) -> Timeline:
    moments = [Moment(view.event.at, f"#{view.event.seq} {view.event.action}") for view in failures]
    return timeline.build(lanes, moments, now, SPANS[window])


def _newest_first(lanes: Lanes) -> list[tuple[str, LiveInterval]]:
    """What the timeline shows, as rows."""
    rows = [(name, interval) for name, intervals in lanes.items() for interval in intervals]
    rows.sort(key=lambda row: row[1].start, reverse=True)
    return rows[:INTERVALS_SHOWN]


def _question(request: Request, name: str) -> tuple[str, str]:
    query = questions.parameters(request, name, "window")
    questions.need(query, name)
    window = query.get("window") or "all"
    if window not in SPANS:
        raise InvalidArgument(f"window={window} is none of {', '.join(SPANS)}")
    return query[name], window
