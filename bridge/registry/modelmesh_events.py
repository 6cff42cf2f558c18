"""What can happen to registered models and vmodels, one dataclass each."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.registry.events import Event, ModelEvent
from bridge.registry.history_records import Aspect
from bridge.registry.records import JsonObject


def vmodel_subject(id: str) -> str:
    return f"vmodel:{id}"


@dataclass(frozen=True)
class ModelRegistered(ModelEvent):
    """A ModelMesh client registered a model, or named it as the new target of a vmodel."""

    action = "model registered"
    aspect = Aspect.WANTED
    content: JsonObject

    def after(self) -> JsonObject:
        return self.content


@dataclass(frozen=True)
class ModelUnregistered(ModelEvent):
    """A registered model left."""

    action = "model unregistered"
    aspect = Aspect.WANTED
    content: JsonObject

    def before(self) -> JsonObject:
        return self.content

    def after(self) -> JsonObject | None:
        return None


@dataclass(frozen=True)
class ModelAutoDeleted(ModelUnregistered):
    """A registered model left with the last vmodel that referred to it, which is named."""

    action = "model auto-deleted"
    vmodel: str

    def after(self) -> JsonObject:
        return {"last_vmodel": self.vmodel}


@dataclass(frozen=True)
class LoadFailureEvent(ModelEvent):
    """Base of the events about a registered model that an instance could not load; `code` is canonical."""

    instance: str
    code: int
    message: str

    def failure(self) -> JsonObject:
        return {"instance": self.instance, "code": self.code, "message": self.message}


@dataclass(frozen=True)
class LoadFailed(LoadFailureEvent):
    """A registered model could not be loaded; written again only for another error, or after it was forgotten."""

    action = "load failed"

    def after(self) -> JsonObject:
        return self.failure()


@dataclass(frozen=True)
class LoadFailureForgotten(LoadFailureEvent):
    """A failed load does not count any more: it expired, or the model was loaded after all."""

    action = "load failure forgotten"

    def before(self) -> JsonObject:
        return self.failure()

    def after(self) -> None:
        return None


@dataclass(frozen=True)
class VModelEvent(Event):
    """Base of the events about one vmodel, with its content before and after."""

    aspect = Aspect.WANTED
    vmodel: str
    previous: JsonObject | None
    content: JsonObject | None

    @property
    def subject(self) -> str:
        return vmodel_subject(self.vmodel)

    def before(self) -> JsonObject | None:
        return self.previous

    def after(self) -> JsonObject | None:
        return self.content


@dataclass(frozen=True)
class VModelCreated(VModelEvent):
    action = "vmodel created"


@dataclass(frozen=True)
class VModelTransitionStarted(VModelEvent):
    """A new target shall take over when it is ready."""

    action = "vmodel transition started"


@dataclass(frozen=True)
class VModelTransitionFailed(VModelEvent):
    """The target could not be loaded, for that cause; the active model goes on and the target is tried again."""

    action = "vmodel transition failed"
    cause: str

    def after(self) -> JsonObject:
        return {**(self.content or {}), "cause": self.cause}


@dataclass(frozen=True)
class VModelTransitionResumed(VModelEvent):
    """The target that failed is no longer known to fail."""

    action = "vmodel transition resumed"


@dataclass(frozen=True)
class VModelPromoted(VModelEvent):
    """The target is active: a transition ended well, or none was needed or wanted."""

    action = "vmodel promoted"


@dataclass(frozen=True)
class VModelRolledBack(VModelEvent):
    """A transition was given up for the active model."""

    action = "vmodel rolled back"


@dataclass(frozen=True)
class VModelDeleted(VModelEvent):
    action = "vmodel deleted"
