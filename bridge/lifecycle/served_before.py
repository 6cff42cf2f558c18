"""Which versions served when the server ended last, and still lie in the model repository.

A base path that cannot be read takes nothing away that serves, and a restart ends in the same state: what served is
served again from Triton's own repository until its base path can be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from bridge.errors import Unavailable
from bridge.registry.events import VersionObserved, model_subject
from bridge.registry.records import EventRecord
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState
from model_repo_sync import names
from model_repo_sync.sources import VersionDirectory

logger = logging.getLogger(__name__)

_EVENTS = 1000
"""How far back the history of one model is read."""

_OPEN = frozenset({VersionState.UNKNOWN.name, VersionState.START.name, VersionState.LOADING.name})
"""States that a server which ended too soon leaves behind: what was before them decides."""


class ServedBefore:
    """Reads the history when a model's base path cannot be used at the start.

    `stored` tells where the content of a Triton model lies in a repository, None where it does not.
    """

    def __init__(self, registry: Registry, thread: RegistryThread, stored: Callable[[str], str | None]) -> None:
        self._registry = registry
        self._thread = thread
        self._stored = stored

    async def versions(self, model: str) -> list[VersionDirectory]:
        """The versions of a model that can be served from a repository, with where they lie there."""
        try:
            events = await self._thread.call(
                self._registry.events,
                model_subject(model),
                VersionObserved.action,
                limit=_EVENTS,
                newest_first=True,
            )
        except Unavailable as error:
            logger.warning("cannot tell what model %s served before: %s", model, error)
            return []
        found = []
        for version in served_last(events):
            path = self._stored(names.servable_name(self._registry.deployment_id, model, version))
            if path is not None:
                found.append(VersionDirectory(version, path))
        return found


def served_last(events: Iterable[EventRecord]) -> list[int]:
    """The versions that were AVAILABLE and did not end since; `events` are one model's, the newest first."""
    decided: dict[int, bool] = {}
    for event in events:
        after = event.after or {}
        version, state = after["version"], after["state"]
        if version not in decided and state not in _OPEN:
            decided[version] = state == VersionState.AVAILABLE.name
    return sorted(version for version, served in decided.items() if served)
