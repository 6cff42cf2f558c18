"""Why a model is not loaded."""

from __future__ import annotations

from bridge.errors import BridgeError, Code
from bridge.placement.model import ErrorKind


class PlacementLoadError(BridgeError):
    """A load that failed, raised by instances and told to waiters. `code` is what an inference client is answered."""

    def __init__(self, code: Code, message: str, kind: ErrorKind = ErrorKind.MODEL) -> None:
        super().__init__(message, code)
        self.kind = kind


class InsufficientResources(BridgeError):
    """A pinned servable does not fit on an instance, even if every evictable model left it."""

    code = Code.RESOURCE_EXHAUSTED

    def __init__(self, servable: str) -> None:
        """`servable` is TF Serving's form: `{name: <m> version: <v>}`."""
        super().__init__(f"Insufficient resources to load servable {servable}")


def model_not_found() -> PlacementLoadError:
    """The model is not registered; ModelMesh's sentence."""
    return PlacementLoadError(Code.NOT_FOUND, "model not found", ErrorKind.UNKNOWN_MODEL)


def nowhere(reason: str) -> PlacementLoadError:
    """No instance takes the model; ModelMesh's sentence with the reason that it leaves out."""
    return PlacementLoadError(Code.UNAVAILABLE, f"Nowhere available to load: {reason}", ErrorKind.CAPACITY)
