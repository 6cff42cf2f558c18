"""What each call of each port needs: the one table. None is everybody's."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.access.identity import Scope

Needs = Mapping[str, Scope | None]

OPEN, INFERENCE, READ, MANAGE = None, Scope.INFERENCE, Scope.READ, Scope.MANAGE

UNLISTED = MANAGE
"""What a call needs that nobody thought of."""


def _named(service: str, needs: Needs) -> Needs:
    return {f"{service}/{name}": scope for name, scope in needs.items()}


GRPC: Needs = {
    **_named(
        "tensorflow.serving.PredictionService",
        {
            "Predict": INFERENCE,
            "Classify": INFERENCE,
            "Regress": INFERENCE,
            "MultiInference": INFERENCE,
            "GetModelMetadata": READ,
        },
    ),
    **_named(
        "tensorflow.serving.ModelService",
        {"GetModelStatus": READ, "HandleReloadConfigRequest": MANAGE},
    ),
    **_named(
        "inference.GRPCInferenceService",
        {
            # Probes carry no credentials.
            "ServerLive": OPEN,
            "ServerReady": OPEN,
            "ServerMetadata": READ,
            "ModelReady": READ,
            "ModelMetadata": READ,
            "ModelConfig": READ,
            "ModelStatistics": READ,
            "RepositoryIndex": READ,
            "ModelInfer": INFERENCE,
            "ModelStreamInfer": INFERENCE,
            "RepositoryModelLoad": MANAGE,
            "RepositoryModelUnload": MANAGE,
            "SystemSharedMemoryStatus": READ,
            "SystemSharedMemoryRegister": MANAGE,
            "SystemSharedMemoryUnregister": MANAGE,
            "CudaSharedMemoryStatus": READ,
            "CudaSharedMemoryRegister": MANAGE,
            "CudaSharedMemoryUnregister": MANAGE,
            "TraceSetting": MANAGE,
            "LogSettings": MANAGE,
        },
    ),
    **_named(
        "mmesh.ModelMesh",
        {
            "registerModel": MANAGE,
            "unregisterModel": MANAGE,
            "getModelStatus": READ,
            # Loads a model, as any request to it does.
            "ensureLoaded": INFERENCE,
            "setVModel": MANAGE,
            "deleteVModel": MANAGE,
            "getVModelStatus": READ,
        },
    ),
    **_named("grpc.health.v1.Health", {"Check": OPEN, "Watch": OPEN}),
    **_named("grpc.reflection.v1.ServerReflection", {"ServerReflectionInfo": READ}),
    **_named("grpc.reflection.v1alpha.ServerReflection", {"ServerReflectionInfo": READ}),
}
"""By `service/method`."""

METRICS = "metrics"
METRICS_PAGE = "GET /metrics"
"""What denials call the pages of metrics: on the REST port, wherever it lies there, and elsewhere."""

REST: Needs = {
    "predict": INFERENCE,
    "classify": INFERENCE,
    "regress": INFERENCE,
    "metadata": READ,
    "status": READ,
    "v2/server_live": OPEN,
    "v2/server_ready": OPEN,
    "v2/server_metadata": READ,
    "v2/index": READ,
    "v2/ready": READ,
    "v2/metadata": READ,
    "v2/config": READ,
    "v2/statistics": READ,
    "v2/infer": INFERENCE,
    METRICS: READ,
}
"""By the action of a URL. URLs that mean nothing are answered alike to everybody."""

CONSOLE: Needs = {
    "GET /": READ,
    "GET /models": READ,
    "GET /vmodels": READ,
    "GET /history": READ,
    "GET /at": READ,
    "GET /rollback": READ,
    "POST /rollback": MANAGE,
    "POST /unpin": MANAGE,
    # What shows the form for a token cannot ask for one.
    "GET /login": OPEN,
    "POST /login": OPEN,
    "POST /logout": OPEN,
    "GET /static/console.css": OPEN,
    "GET /static/console.js": OPEN,
    "GET /static/icon.svg": OPEN,
}
"""The pages of the admin port for people, by HTTP method and path."""

ADMIN: Needs = {
    **CONSOLE,
    "GET /livez": OPEN,
    "GET /readyz": OPEN,
    METRICS_PAGE: READ,
    "GET /api/v1/models": READ,
    "GET /api/v1/versions": READ,
    "GET /api/v1/labels": READ,
    "GET /api/v1/instances": READ,
    "GET /api/v1/events": READ,
    "GET /api/v1/registered_models": READ,
    "GET /api/v1/vmodels": READ,
    "GET /api/v1/history": READ,
    "GET /api/v1/history/at": READ,
    "GET /api/v1/history/diff": READ,
    "GET /api/v1/history/live": READ,
    "GET /api/v1/verify": READ,
    "GET /api/v1/export/events": READ,
    "GET /api/v1/export/anchor": READ,
    "GET /api/v1/openapi.json": READ,
    "GET /api/v1/stream": READ,
    "GET /api/v1/provenance": READ,
    "GET /api/v1/rollback": READ,
    "POST /api/v1/rollback": MANAGE,
    "DELETE /api/v1/pin": MANAGE,
    "PUT /api/v1/policy": MANAGE,
    "PUT /api/v1/label": MANAGE,
    "DELETE /api/v1/label": MANAGE,
    "PUT /api/v1/vmodel": MANAGE,
    "DELETE /api/v1/vmodel": MANAGE,
}
"""By HTTP method and path; HEAD counts as GET."""
