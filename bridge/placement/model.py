"""What is placed, and what is told about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from bridge.errors import Code


@dataclass(frozen=True)
class Loadable:
    """One registration of a model.

    `generation` grows with each registration of `id`, so that a model registered anew is never taken for the earlier
    one. `predicted_size` is in bytes, 0 where nothing is known. `content` is the instance's business alone.
    """

    id: str
    generation: int
    type: str
    predicted_size: int = 0
    content: object = field(default=None, compare=False)

    @property
    def key(self) -> tuple[str, int]:
        """Tells registrations apart."""
        return self.id, self.generation


class CopyState(IntEnum):
    """State of one copy, by the numbers of mmesh's ModelStatus."""

    LOADING = 2
    """Queued, waiting for room, or loading."""
    LOADED = 3
    LOADING_FAILED = 4


class Status(IntEnum):
    """State of a model, by the numbers of mmesh's ModelStatus."""

    NOT_FOUND = 0
    NOT_LOADED = 1
    LOADING = 2
    LOADED = 3
    LOADING_FAILED = 4


class Copy(NamedTuple):
    """A copy on an instance. `since_ms` is the time of its latest change of state, `size` in bytes."""

    instance: str
    state: CopyState
    since_ms: int
    size: int


class CopyView(NamedTuple):
    """A loaded copy as a waiter gets it."""

    model: Loadable
    instance: str


class Failure(NamedTuple):
    """The last failed load of a model on an instance. `at_ms` is milliseconds UTC."""

    instance: str
    code: Code
    message: str
    at_ms: int


@dataclass(frozen=True)
class ModelStatus:
    """Status of a model. `errors` are those of its unexpired failures, `copies` all copies; both newest first."""

    status: Status
    errors: tuple[str, ...] = ()
    copies: tuple[Copy, ...] = ()


class ErrorKind(Enum):
    """Why a model could not be loaded."""

    MODEL = "model"
    """The model is at fault: the instance is not tried again before the failure has expired."""
    PLATFORM = "platform"
    """The instance is at fault: nothing is recorded against the model."""
    CAPACITY = "capacity"
    """No instance has room for it, or none may hold it."""
    UNKNOWN_MODEL = "unknown model"
    """It is not registered, or not any more."""
