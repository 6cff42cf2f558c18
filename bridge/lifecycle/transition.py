"""Which version of one model is loaded or unloaded next, by TF Serving's two rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


Rule = Callable[[Iterable[Candidate]], Action | None]
"""The next step, or None when there is nothing to do until something changes.

A version in ERROR does not count as serving and is not tried again while it stays aspired.
"""


def availability_preserving(versions: Iterable[Candidate]) -> Action | None:
    """What serves goes only when something wanted serves in its place (core/availability_preserving_policy.cc)."""
    candidates = list(versions)
    leaving = [item.version for item in candidates if item.phase is Phase.READY and not item.aspired]
    aspired = [item for item in candidates if item.aspired]
    replaced = not aspired or any(item.phase is Phase.READY for item in aspired)
    if leaving and (replaced or len(leaving) > 1):
        return Action(Verb.UNLOAD, min(leaving))
    return _highest_new(aspired)


def resource_preserving(versions: Iterable[Candidate]) -> Action | None:
    """Nothing loads before everything unwanted is gone (core/resource_preserving_policy.cc)."""
    candidates = list(versions)
    unwanted = [item for item in candidates if not item.aspired]
    leaving = [item.version for item in unwanted if item.phase is Phase.READY]
    if leaving:
        return Action(Verb.UNLOAD, min(leaving))
    if any(item.phase in (Phase.LOADING, Phase.UNLOADING) for item in unwanted):
        return None
    return _highest_new(item for item in candidates if item.aspired)


RULES: Mapping[str, Rule] = {
    "availability_preserving": availability_preserving,
    "resource_preserving": resource_preserving,
}
"""By the values of --transition_policy."""


def _highest_new(aspired: Iterable[Candidate]) -> Action | None:
    new = [item.version for item in aspired if item.phase is Phase.NEW]
    return Action(Verb.LOAD, max(new)) if new else None
