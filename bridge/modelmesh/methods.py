"""Which inference methods ModelMesh knows, and where in their requests the model is named."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.codec.wire import LEN, MalformedRequest, fields, text
from bridge.kserve import grpc_service
from bridge.tfserving import prediction_service

_MODEL_NAME = (1,)
"""Where requests of the V2 protocol name the model."""
_MODEL_SPEC_NAME = (1, 1)
"""Where requests of TF Serving's protocol do."""

MESH_SERVICE = "mmesh.ModelMesh"
"""The service by which ModelMesh is managed."""
MESH_RPCS = (
    "registerModel",
    "unregisterModel",
    "getModelStatus",
    "ensureLoaded",
    "setVModel",
    "deleteVModel",
    "getVModelStatus",
)
"""Its methods."""

METHODS: Mapping[str, tuple[int, ...]] = {
    **{
        f"{grpc_service.SERVICE}/{name}": _MODEL_NAME
        for name in ("ModelInfer", "ModelMetadata", "ModelReady", "ModelConfig", "ModelStatistics")
    },
    **{
        f"{prediction_service.SERVICE}/{name}": _MODEL_SPEC_NAME
        for name in ("Predict", "Classify", "Regress", "GetModelMetadata")
    },
}
"""The path of field numbers to the model's name, by method. MultiInference names several models, which no path
describes, and ModelMesh knows no streams."""


def model_name(method: str, request: bytes) -> str:
    """The model that a request names, empty where it names none or cannot be read."""
    view = memoryview(request)
    try:
        for number in METHODS.get(method, ()):
            found = [part for tag, _, part in fields(view) if tag == number << 3 | LEN]
            if not found:
                return ""
            view = found[-1]
        return text(view) if method in METHODS else ""
    except MalformedRequest:
        return ""
