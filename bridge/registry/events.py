"""Everything that can happen, one dataclass each.

An event names its subject (`model:NAME`, `label:MODEL/LABEL`, `vmodel:ID`, `instance:NAME` or `server`) and gives the
subject's state before and after as JSON. Which events are read back as a subject's state, `bridge.registry.slots` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from bridge.registry.history_records import Aspect
from bridge.registry.records import Actor, JsonObject
from bridge.serving.routes import VersionState

SERVER = "server"


def model_subject(name: str) -> str:
    return f"model:{name}"


def label_subject(model: str, label: str) -> str:
    return f"label:{model}/{label}"


def instance_subject(name: str) -> str:
    return f"instance:{name}"


@dataclass(frozen=True)
class Event:
    """Base of all events. `action` names the kind in SQL and in every view of the history."""

    action: ClassVar[str]
    aspect: ClassVar[Aspect] = Aspect.OBSERVED

    @property
    def subject(self) -> str:
        return SERVER

    def properties(self) -> dict[str, Any]:
        """Every field of this event by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def before(self) -> JsonObject | None:
        return None

    def after(self) -> JsonObject | None:
        return self.properties()

    def about_version(self) -> int | None:
        """The version of the subject's model that the event is about."""
        return None

    def by(self) -> Actor | None:
        """Who caused it, where that is not the actor of the transaction."""
        return None


@dataclass(frozen=True)
class ConfigApplied(Event):
    """A configuration replaced the models that the configuration owns; events of what it changed stand before it."""

    action = "config applied"
    aspect = Aspect.WANTED
    origin: str
    content_hash: str
    revision: int
    models_before: Mapping[str, JsonObject]
    models_after: Mapping[str, JsonObject]

    def before(self) -> JsonObject:
        return {"models": self.models_before}

    def after(self) -> JsonObject:
        return {
            "origin": self.origin,
            "content_hash": self.content_hash,
            "revision": self.revision,
            "models": self.models_after,
        }


@dataclass(frozen=True)
class ConfigRejected(Event):
    """A configuration could not be read or applied, so nothing of it holds."""

    action = "config rejected"
    origin: str
    content_hash: str
    revision: int
    error: str


@dataclass(frozen=True)
class ModelEvent(Event):
    """Base of the events about one model."""

    model: str

    @property
    def subject(self) -> str:
        return model_subject(self.model)


@dataclass(frozen=True)
class ModelAdded(ModelEvent):
    action = "model added"
    aspect = Aspect.WANTED
    wanted: JsonObject

    def after(self) -> JsonObject:
        return self.wanted


@dataclass(frozen=True)
class ModelChanged(ModelEvent):
    action = "model changed"
    aspect = Aspect.WANTED
    previous: JsonObject
    wanted: JsonObject

    def before(self) -> JsonObject:
        return self.previous

    def after(self) -> JsonObject:
        return self.wanted


@dataclass(frozen=True)
class ModelRemoved(ModelEvent):
    action = "model removed"
    aspect = Aspect.WANTED
    previous: JsonObject

    def before(self) -> JsonObject:
        return self.previous

    def after(self) -> None:
        return None


@dataclass(frozen=True)
class PolicySet(ModelEvent):
    """Another policy picks the versions; `previous` and `wanted` are the whole content of the model."""

    action = "policy set"
    aspect = Aspect.WANTED
    previous: JsonObject
    wanted: JsonObject

    def before(self) -> JsonObject:
        return self.previous

    def after(self) -> JsonObject:
        return self.wanted


@dataclass(frozen=True)
class LabelEvent(ModelEvent):
    """Base of the events about one label; `previous` is the version it meant before."""

    aspect = Aspect.WANTED
    label: str
    previous: int | None

    @property
    def subject(self) -> str:
        return label_subject(self.model, self.label)

    def before(self) -> JsonObject | None:
        return None if self.previous is None else {"version": self.previous}


@dataclass(frozen=True)
class LabelSet(LabelEvent):
    action = "label set"
    version: int

    def after(self) -> JsonObject:
        return {"version": self.version}

    def about_version(self) -> int:
        return self.version


@dataclass(frozen=True)
class LabelRemoved(LabelEvent):
    action = "label removed"

    def after(self) -> None:
        return None

    def about_version(self) -> int | None:
        return self.previous


@dataclass(frozen=True)
class VersionObserved(ModelEvent):
    """A version was seen in another state than before, or with other content."""

    action = "version observed"
    version: int
    state: int
    code: int
    message: str
    path: str
    fingerprint: str
    size: int
    previous: VersionObserved | None = None

    def before(self) -> JsonObject | None:
        return self.previous.after() if self.previous else None

    def after(self) -> JsonObject:
        observed = self.properties()
        del observed["model"], observed["previous"]
        return observed | {"state": VersionState(self.state).name}

    def about_version(self) -> int:
        return self.version


@dataclass(frozen=True)
class CopyEvent(ModelEvent):
    """Base of the events about a servable on an instance; `size` is in bytes."""

    version: int
    instance: str
    triton_name: str
    size: int

    def about_version(self) -> int:
        return self.version


@dataclass(frozen=True)
class CopyLoaded(CopyEvent):
    action = "copy loaded"


@dataclass(frozen=True)
class CopyLost(CopyEvent):
    """A loaded copy is gone: unloaded, dead, or no longer watched, as `cause` says."""

    action = "copy lost"
    cause: str

    def before(self) -> JsonObject:
        lost = self.properties()
        del lost["cause"]
        return lost

    def after(self) -> JsonObject:
        return {"cause": self.cause}


@dataclass(frozen=True)
class InstanceEvent(Event):
    """Base of the events about one Triton instance."""

    instance: str

    @property
    def subject(self) -> str:
        return instance_subject(self.instance)


@dataclass(frozen=True)
class InstanceRegistered(InstanceEvent):
    """An instance is new, or its addresses or its owner changed."""

    action = "instance registered"
    aspect = Aspect.WANTED
    previous: JsonObject | None
    addresses: JsonObject

    def before(self) -> JsonObject | None:
        return self.previous

    def after(self) -> JsonObject:
        return self.addresses


@dataclass(frozen=True)
class InstanceObserved(InstanceEvent):
    """Base of the events about an instance's state."""

    previous: str
    state: str
    cause: str

    def before(self) -> JsonObject:
        return {"state": self.previous}

    def after(self) -> JsonObject:
        return {"state": self.state, "cause": self.cause}


@dataclass(frozen=True)
class InstanceUp(InstanceObserved):
    action = "instance up"


@dataclass(frozen=True)
class InstanceLost(InstanceObserved):
    action = "instance lost"


@dataclass(frozen=True)
class InstanceBack(InstanceObserved):
    action = "instance back"


@dataclass(frozen=True)
class InstanceUnwatched(InstanceObserved):
    """The process that watched the instance ended."""

    action = "instance unwatched"


@dataclass(frozen=True)
class SourceEvent(Event):
    """Base of the events about a source; `about` is the subject."""

    about: str
    path: str
    sentence: str

    @property
    def subject(self) -> str:
        return self.about

    def _problem(self) -> JsonObject:
        return {"path": self.path, "problem": self.sentence}


@dataclass(frozen=True)
class SourceProblem(SourceEvent):
    """A source cannot be used as it is; written once per change."""

    action = "source problem"
    previous: str | None = None

    def before(self) -> JsonObject | None:
        return None if self.previous is None else {"path": self.path, "problem": self.previous}

    def after(self) -> JsonObject:
        return self._problem()


@dataclass(frozen=True)
class SourceCleared(SourceEvent):
    action = "source cleared"

    def before(self) -> JsonObject:
        return self._problem()

    def after(self) -> None:
        return None


@dataclass(frozen=True)
class ServerStarted(Event):
    action = "server started"
    version: str
    settings: JsonObject


@dataclass(frozen=True)
class ServerStopped(Event):
    action = "server stopped"
    cause: str


@dataclass(frozen=True)
class ServerLost(Event):
    """A server ended without a word; `until` is the last that was heard of it, microseconds UTC."""

    action = "server lost"
    process: str
    until: int


@dataclass(frozen=True)
class DatabaseMigrated(Event):
    """The schema moved between revisions; `from_revision` is empty for a new database."""

    action = "database migrated"
    from_revision: str
    to_revision: str

    def before(self) -> JsonObject | None:
        return {"revision": self.from_revision} if self.from_revision else None

    def after(self) -> JsonObject:
        return {"revision": self.to_revision}


@dataclass(frozen=True)
class LeadershipTaken(Event):
    action = "leadership taken"
    holder: str
    fence: int
    previous: str | None

    def before(self) -> JsonObject | None:
        return None if self.previous is None else {"holder": self.previous}

    def after(self) -> JsonObject:
        return {"holder": self.holder, "fence": self.fence}


@dataclass(frozen=True)
class LeadershipGiven(Event):
    action = "leadership given back"
    holder: str
    fence: int

    def before(self) -> JsonObject:
        return self.properties()

    def after(self) -> None:
        return None
