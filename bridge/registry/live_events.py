"""Moves of what selectors resolve to: of a model, of a model and label, of a vmodel or a registered model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.registry.events import Event
from bridge.registry.history_records import Aspect
from bridge.registry.records import Actor, JsonObject


@dataclass(frozen=True, slots=True)
class Cause:
    """The event that made a selector move, and who was behind it."""

    seq: int
    action: str
    actor: Actor

    def content(self) -> JsonObject:
        return {"seq": self.seq, "action": self.action}


@dataclass(frozen=True)
class LiveMoved(Event):
    """The selector `about` resolves to something else, with a loaded copy; `state` is None where nothing is served.

    Times are microseconds UTC. `since` is when the selector began to resolve to this content, where that was before:
    other versions came or went, or more is known of it. `until` is the last that was heard of a bridge that ended
    without a word: from then on nothing was served.
    """

    action = "live moved"
    aspect = Aspect.LIVE
    about: str
    previous: JsonObject | None
    state: JsonObject | None
    cause: Cause | None = None
    since: int | None = None
    until: int | None = None

    @property
    def subject(self) -> str:
        return self.about

    def before(self) -> JsonObject | None:
        return self.previous

    def after(self) -> JsonObject | None:
        after: dict[str, Any] = dict(self.state or {})
        if self.cause is not None:
            after["cause"] = self.cause.content()
        for name, time in (("since", self.since), ("until", self.until)):
            if time is not None:
                after[name] = time
        return after or None

    def about_version(self) -> int | None:
        version = (self.state or self.previous or {}).get("version")
        return None if version is None else int(version)

    def by(self) -> Actor | None:
        return self.cause.actor if self.cause is not None else None


def served(after: Mapping[str, Any] | None) -> JsonObject | None:
    """The state in what a `LiveMoved` says after it, None where nothing is served."""
    if after is None or "model" not in after:
        return None
    return {name: value for name, value in after.items() if name not in _BESIDE}


def same_version(before: JsonObject | None, after: JsonObject | None) -> bool:
    """Whether both serve the same version of a model, or the same registration."""
    return before is not None and after is not None and all(before.get(key) == after.get(key) for key in _VERSION)


def same_content(before: JsonObject | None, after: JsonObject | None) -> bool:
    """Whether both serve the same version with the same files, as far as is known."""
    if before is None or after is None or not same_version(before, after):
        return False
    return "" in (before.get("fingerprint", ""), after.get("fingerprint", "")) or (
        before["fingerprint"] == after["fingerprint"]
    )


_BESIDE = ("cause", "since", "until")
_VERSION = ("model", "version", "generation")
