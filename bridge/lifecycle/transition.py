"""Which version of one model is loaded or unloaded next.

The rule is TF Serving's availability-preserving policy (core/availability_preserving_policy.cc): what serves goes only
when something wanted serves in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Phase(Enum):
    """Where one version stands in the manager."""

    NEW = "new"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"
    ERROR = "error"


class Candidate(NamedTuple):
    """A version as the rule sees it. `aspired` says whether the source still wants it."""

    version: int
    phase: Phase
    aspired: bool


class Verb(Enum):
    LOAD = "load"
    UNLOAD = "unload"


class Action(NamedTuple):
    """The next step for one model."""

    verb: Verb
    version: int


def next_action(versions: Iterable[Candidate]) -> Action | None:
    """The next step, or None when there is nothing to do until something changes.

    A version in ERROR does not count as serving and is not tried again while it stays aspired.
    """
    candidates = list(versions)
    leaving = [item.version for item in candidates if item.phase is Phase.READY and not item.aspired]
    aspired = [item for item in candidates if item.aspired]
    replaced = not aspired or any(item.phase is Phase.READY for item in aspired)
    if leaving and (replaced or len(leaving) > 1):
        return Action(Verb.UNLOAD, min(leaving))
    new = [item.version for item in aspired if item.phase is Phase.NEW]
    return Action(Verb.LOAD, max(new)) if new else None
