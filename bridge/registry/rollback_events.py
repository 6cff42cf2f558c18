"""What can happen to contents and to the pins that rollbacks make, one dataclass each."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.registry.events import Event, ModelEvent
from bridge.registry.history_records import Aspect
from bridge.registry.records import JsonObject


@dataclass(frozen=True)
class VersionContentEvent(ModelEvent):
    """Base of the events about a version's content, with what was known of it before."""

    version: int
    previous: JsonObject | None
    content: JsonObject

    def about_version(self) -> int:
        return self.version

    def before(self) -> JsonObject | None:
        return None if self.previous is None else {"version": self.version, **self.previous}

    def after(self) -> JsonObject:
        return {"version": self.version, **self.content}


@dataclass(frozen=True)
class ProvenanceRecorded(VersionContentEvent):
    """Every byte of a version that was loaded is known now."""

    action = "provenance recorded"


@dataclass(frozen=True)
class ContentChanged(VersionContentEvent):
    """Under the number of a version lies other content than the one that was loaded last."""

    action = "content changed"


@dataclass(frozen=True)
class PinEvent(ModelEvent):
    """Base of the events about a model's rollback pin."""

    aspect = Aspect.WANTED
    previous: JsonObject | None
    pin: JsonObject | None

    def before(self) -> JsonObject | None:
        return self.previous

    def after(self) -> JsonObject | None:
        return self.pin


@dataclass(frozen=True)
class RollbackPinned(PinEvent):
    """A rollback holds the model at versions, whatever its policy says."""

    action = "rollback pinned"


@dataclass(frozen=True)
class RollbackUnpinned(PinEvent):
    """The model follows its policy again."""

    action = "rollback unpinned"


@dataclass(frozen=True)
class RolledBack(Event):
    """What `about` resolved to was put back to what it was at an event or a time, which `reference` names."""

    action = "rolled back"
    aspect = Aspect.WANTED
    about: str
    reference: str
    previous: JsonObject | None
    restored: JsonObject | None

    @property
    def subject(self) -> str:
        return self.about

    def before(self) -> JsonObject | None:
        return self.previous

    def after(self) -> JsonObject:
        return {**(self.restored or {}), "to": self.reference}
