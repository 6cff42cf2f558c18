"""A ModelMesh client over a gRPC channel."""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc

from model_repo_sync.protos.mmesh import model_mesh_pb2 as pb

SERVICE = "mmesh.ModelMesh"
MODEL = pb.ModelStatusInfo.ModelStatus.Name
VMODEL = pb.VModelStatusInfo.VModelStatus.Name
_TYPES: dict[str, tuple[Any, Any]] = {
    "registerModel": (pb.RegisterModelRequest, pb.ModelStatusInfo),
    "unregisterModel": (pb.UnregisterModelRequest, pb.UnregisterModelResponse),
    "getModelStatus": (pb.GetStatusRequest, pb.ModelStatusInfo),
    "ensureLoaded": (pb.EnsureLoadedRequest, pb.ModelStatusInfo),
    "setVModel": (pb.SetVModelRequest, pb.VModelStatusInfo),
    "deleteVModel": (pb.DeleteVModelRequest, pb.DeleteVModelResponse),
    "getVModelStatus": (pb.GetVModelStatusRequest, pb.VModelStatusInfo),
}


class Refusal(NamedTuple):
    """A status that is not OK: its name and text."""

    code: str
    text: str


class ModelMeshClient:
    """Calls by their names: `client("registerModel", modelId="a", modelInfo={"type": "tensorflow"})`."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)

    def __call__(self, method: str, *, timeout: Any = 30.0, **fields: Any) -> Any:
        """The response, within so many seconds. Raises grpc.RpcError."""
        request, response = _TYPES[method]
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call(request(**fields), timeout=timeout)

    def refused(self, method: str, **fields: Any) -> Refusal:
        """The status of a call that must fail."""
        try:
            answer = self(method, **fields)
        except grpc.RpcError as error:
            return Refusal(error.code().name, error.details() or "")
        raise AssertionError(f"{method} answered {answer}")

    def model(self, id: str) -> str:
        """The name of a model's status."""
        return MODEL(self("getModelStatus", modelId=id).status)

    def vmodel(self, id: str) -> tuple[str, str, str]:
        """Status, active and target of a vmodel."""
        answer = self("getVModelStatus", vModelId=id)
        return VMODEL(answer.status), answer.activeModelId, answer.targetModelId

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
