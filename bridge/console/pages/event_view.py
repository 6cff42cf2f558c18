"""Events as pages show them: what happened to what, by whom, and what differs, value by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from bridge import moments
from bridge.registry.history_records import Change, changes
from bridge.registry.live_events import LiveMoved
from bridge.registry.records import EventRecord

TIMES = frozenset({"since", "until", "first", "last"})
"""Values in events that are microseconds UTC."""
TROUBLE = frozenset(
    {
        "call denied",
        "calls denied",
        "config rejected",
        "content changed",
        "instance lost",
        "load failed",
        "server lost",
        "source problem",
        "vmodel transition failed",
    }
)
"""Actions of events that tell of something that went wrong."""
GISTS = (
    (frozenset({"live moved", "label set", "label removed"}), "version"),
    (frozenset({"version observed", "instance up", "instance lost", "instance back", "instance unwatched"}), "state"),
    (frozenset({"vmodel created", "vmodel promoted", "vmodel rolled back", "vmodel deleted"}), "active"),
    (frozenset({"vmodel transition started", "vmodel transition failed", "vmodel transition resumed"}), "target"),
)
"""By actions, the value of a state that tells most."""
PAGES = {"model": ("/models", "name"), "vmodel": ("/vmodels", "id")}


@dataclass(frozen=True, slots=True)
class Difference:
    """One value before and after as text, None where there is none; `kind` is added, removed or changed."""

    path: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class EventView:
    """An event with its differences. `trouble` tells that something went wrong; `cause` are number and action of the
    event that made a selector move."""

    event: EventRecord
    differences: tuple[Difference, ...]
    trouble: bool
    cause: tuple[int, str] | None = None

    @property
    def gist(self) -> tuple[str, str] | None:
        """The one value that tells most, before and after."""
        name = next((name for actions, name in GISTS if self.event.action in actions), "")
        before, after = (_told(value, name) for value in (self.event.before, self.event.after))
        return (before, after) if name and before != after else None


def view(event: EventRecord) -> EventView:
    moved = event.action == LiveMoved.action and event.after is not None
    cause = event.after.get("cause") if moved else None
    after = {name: value for name, value in event.after.items() if name != "cause"} if moved else event.after
    told = (cause["seq"], cause["action"]) if cause is not None else None
    return EventView(event, differences(event.before, after or None), _is_trouble(event), told)


def differences(before: Any, after: Any) -> tuple[Difference, ...]:
    """What differs, by path; where all of a side is missing each value of the other one counts."""
    return of_changes(changes(before, after))


def of_changes(found: Iterable[Change]) -> tuple[Difference, ...]:
    """Changes as text, those of whole objects value by value."""
    return tuple(
        Difference(path, _text(path, before), _text(path, after))
        for change in found
        for path, before, after in _values(change.path, change.before, change.after)
    )


def subject_url(subject: str) -> str:
    """The page that tells most of a subject."""
    kind, _, name = subject.partition(":")
    if kind in PAGES:
        path, parameter = PAGES[kind]
        return f"{path}?{urlencode({parameter: name})}"
    return f"/history?{urlencode({'subject': subject})}"


def _told(state: Any, name: str) -> str:
    value = state.get(name) if isinstance(state, Mapping) else None
    if value is None and name == "version":
        # What selectors of ModelMesh resolve to has no version.
        return _told(state, "model")
    return "nothing" if value is None else str(value).lower() if name == "state" else str(value)


def _values(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """One level of an object that came or went as a whole, since its values say more than its text."""
    one, other = (value if isinstance(value, Mapping) else {} for value in (before, after))
    if not one and not other:
        yield path, before, after
        return
    for key in [*one, *(key for key in other if key not in one)]:
        yield from _values(f"{path}.{key}" if path else str(key), one.get(key), other.get(key))


def _text(path: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and path.rpartition(".")[2] in TIMES:
        return moments.describe(value)
    return orjson.dumps(value).decode()


def _is_trouble(event: EventRecord) -> bool:
    after = event.after if isinstance(event.after, Mapping) else {}
    return event.action in TROUBLE or (event.action == "version observed" and after.get("code", 0) != 0)
