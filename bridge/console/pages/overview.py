"""The overview: models, vmodels and instances as they are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from bridge.console import questions
from bridge.console.health import Readiness
from bridge.console.pages import event_view
from bridge.console.pages.renderer import Renderer
from bridge.lifecycle.history_operations import HistoryFilter
from bridge.lifecycle.operations import InstanceView, LabelView, ModelView, Operations, VersionView
from bridge.modelmesh.operations import InstanceRoom, ModelMeshOperations
from bridge.serving.routes import VersionState

EVENTS_SHOWN = 8
SETTLED = frozenset({VersionState.AVAILABLE.name, VersionState.END.name, VersionState.UNKNOWN.name})


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model with its labels, and with those of its versions that load, unload or failed."""

    model: ModelView
    labels: tuple[LabelView, ...]
    moving: tuple[VersionView, ...]
    failed: tuple[VersionView, ...]

    @property
    def policy(self) -> str:
        return policy_text(self.model.policy)


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """An instance with what it holds; sizes are in bytes, `capacity` 0 where nothing limits them."""

    instance: InstanceView
    used: int
    capacity: int
    loading: int

    @property
    def share(self) -> int:
        """How full it is, in per cent."""
        return min(100, round(100 * self.used / self.capacity)) if self.capacity else 0


class OverviewPage:
    def __init__(
        self, renderer: Renderer, operations: Operations, modelmesh: ModelMeshOperations, health: Readiness
    ) -> None:
        self._renderer = renderer
        self._operations = operations
        self._modelmesh = modelmesh
        self._health = health

    async def show(self, request: Request) -> Response:
        questions.parameters(request)
        # Before everything else, so that nothing is missed between this and what is shown.
        events = await self._operations.history.history(HistoryFilter(limit=EVENTS_SHOWN))
        operations, modelmesh = self._operations, self._modelmesh
        models = model_rows(await operations.models(), await operations.labels(), await operations.versions())
        instances = instance_rows(await operations.instances(), modelmesh.rooms(), await operations.copy_sizes())
        return self._renderer.page(
            "overview.html",
            request.scope,
            seq=events[0].seq if events else 0,
            models=models,
            vmodels=await modelmesh.vmodels(),
            registered=await modelmesh.registered_models(),
            instances=instances,
            reasons=await self._health.reasons(),
            events=[event_view.view(event) for event in events],
        )


def model_rows(
    models: Sequence[ModelView], labels: Sequence[LabelView], versions: Sequence[VersionView]
) -> list[ModelRow]:
    """A row for each model."""
    return [_model_row(model, labels, versions) for model in models]


def instance_rows(
    instances: Sequence[InstanceView], rooms: Mapping[str, InstanceRoom], sizes: Mapping[str, int]
) -> list[InstanceRow]:
    """A row for each instance: `rooms` where models are placed by their size, else the `sizes` of what is loaded."""
    rows = []
    for instance in instances:
        room = rooms.get(instance.name)
        if room is None:
            rows.append(InstanceRow(instance, sizes.get(instance.name, 0), 0, 0))
        else:
            rows.append(InstanceRow(instance, room.used, room.capacity, room.loading))
    return rows


def policy_text(policy: Mapping[str, object]) -> str:
    """A version policy as people say it."""
    match policy:
        case {"latest": {"num_versions": int(count)}}:
            return "latest version" if count == 1 else f"latest {count} versions"
        case {"specific": {"versions": [*versions]}}:
            return f"version{'s' if len(versions) > 1 else ''} {', '.join(map(str, versions))}"
        case {"all": _}:
            return "all versions"
    return ", ".join(policy)


def _model_row(model: ModelView, labels: Sequence[LabelView], versions: Sequence[VersionView]) -> ModelRow:
    own = [version for version in versions if version.model == model.name]
    return ModelRow(
        model,
        tuple(label for label in labels if label.model == model.name),
        tuple(version for version in own if version.state not in SETTLED),
        tuple(version for version in own if version.state == VersionState.END.name and version.code != "OK"),
    )
