"""A scripted ModelMesh: calls a runtime sidecar as a real one does, and checks what a real one checks.

with ModelMeshCaller(address) as mesh:
    mesh.start()                       # polls until READY, checks the parameters as at the start of a real one
    mesh.load("model-1", path="m1")
    mesh.infer("model-1", request)     # by the method list, with the id injected and in the metadata
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc
from tritonclient.grpc import service_pb2

from model_repo_sync.protos.mmesh import model_runtime_pb2 as pb

SERVICE = "mmesh.ModelRuntime"
STATUS = pb.RuntimeStatusResponse
MEBIBYTE = 1024 * 1024
UNIT = 8192
PREDICT_SIZE_SECONDS = 0.5
MODEL_SIZE_SECONDS = 30.0
_TYPES: dict[str, tuple[Any, Any]] = {
    "loadModel": (pb.LoadModelRequest, pb.LoadModelResponse),
    "unloadModel": (pb.UnloadModelRequest, pb.UnloadModelResponse),
    "predictModelSize": (pb.PredictModelSizeRequest, pb.PredictModelSizeResponse),
    "modelSize": (pb.ModelSizeRequest, pb.ModelSizeResponse),
    "runtimeStatus": (pb.RuntimeStatusRequest, pb.RuntimeStatusResponse),
}


class Failure(NamedTuple):
    """A status that is not OK."""

    code: str
    text: str


class ModelMeshCaller:
    """One life of a ModelMesh container beside the runtime."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self.status = STATUS()
        self.polls: list[str] = []

    def start(self, seconds: float = 60.0) -> Any:
        """Poll the status until READY, refuse what a real one refuses; the status."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.status = self.call("runtimeStatus", timeout=seconds)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:  # which says that it does not listen yet
                    raise
                self.polls.append("UNAVAILABLE")
            else:
                self.polls.append(STATUS.Status.Name(self.status.status))
                assert self.polls[-1] in ("STARTING", "READY")  # anything else is fatal at once
                if self.polls[-1] == "READY":
                    return self._accepted()
            assert time.monotonic() < deadline, f"the runtime did not start: {self.polls}"
            time.sleep(0.1)

    def call(self, method: str, *, timeout: float | None = None, **fields: Any) -> Any:
        """The response. Raises grpc.RpcError."""
        return self.begin(method, timeout=timeout, **fields).result()

    def begin(self, method: str, *, timeout: float | None = None, **fields: Any) -> Any:
        """The call, which may be cancelled."""
        request, response = _TYPES[method]
        stub = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return stub.future(request(**fields), timeout=timeout)

    def load(self, id: str, *, path: str, type: str = "tensorflow", key: str = "") -> int:
        """Ask for the predicted size, load, ask for the size if the answer has none; the size, in whole units."""
        model: dict[str, Any] = {"modelId": id, "modelType": type, "modelPath": path, "modelKey": key}
        assert self.call("predictModelSize", timeout=PREDICT_SIZE_SECONDS, **model).sizeInBytes > 0
        answer = self.call("loadModel", **model)
        size = answer.sizeInBytes or self.call("modelSize", timeout=MODEL_SIZE_SECONDS, modelId=id).sizeInBytes
        assert 0 < size <= self.status.capacityInBytes
        assert bool(answer.maxConcurrency) == self.status.limitModelConcurrency
        return int(-(-size // UNIT) * UNIT)

    def fails_to_load(self, id: str, **model: str) -> Failure:
        """The status of a load that must fail. An unload follows, whatever the status is."""
        fields: dict[str, Any] = {
            "modelType": "tensorflow",
            **{f"model{name.title()}": value for name, value in model.items()},
        }
        try:
            answer = self.call("loadModel", modelId=id, **fields)
        except grpc.RpcError as error:
            self.unload(id)
            return Failure(error.code().name, error.details() or "")
        raise AssertionError(f"model {id} was loaded: {answer}")

    def load_and_cancel(self, id: str, *, path: str, after: float) -> None:
        """Give a load up after some seconds, as at a load timeout. An unload has to follow."""
        call = self.begin("loadModel", modelId=id, modelType="tensorflow", modelPath=path)
        time.sleep(after)
        assert not call.done(), "the load was over before it could be cancelled"
        call.cancel()

    def unload(self, id: str) -> None:
        """Unload; a runtime that does not know the model may say NOT_FOUND."""
        try:
            self.call("unloadModel", modelId=id)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise

    def infer(self, id: str, request: Any, method: str = "inference.GRPCInferenceService/ModelInfer") -> Any:
        """The runtime's answer to a V2 request of a client. Raises grpc.RpcError."""
        assert method in self.status.methodInfos or self.status.allowAnyMethod, f"{method} is not permitted"
        _inject(request, list(self.status.methodInfos[method].idInjectionPath), id)
        metadata: list[tuple[str, str | bytes]] = [("mm-model-id-bin", id.encode())]
        if id.isascii() and id.isprintable():
            metadata.append(("mm-model-id", id))
        stub: Any = self._channel.unary_unary(
            f"/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        return stub(request, metadata=tuple(metadata), timeout=30.0)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _accepted(self) -> Any:
        status = self.status
        least = max(2 * status.defaultModelSizeInBytes, min(512 * MEBIBYTE, 10 * status.defaultModelSizeInBytes))
        assert status.capacityInBytes >= least, "the capacity is too small relative to the default size"
        assert status.defaultModelSizeInBytes >= UNIT
        assert status.maxLoadingConcurrency >= 1
        assert status.modelLoadingTimeoutMs >= 100
        for method, info in status.methodInfos.items():
            assert method.count("/") == 1, method
            assert not method.startswith("/"), method
            assert all(number > 0 for number in info.idInjectionPath)
        return status


def _inject(message: Any, path: list[int], id: str) -> None:
    """Write the id into the string field at the path, as a runtime is promised."""
    for number in path[:-1]:
        message = getattr(message, message.DESCRIPTOR.fields_by_number[number].name)
    setattr(message, message.DESCRIPTOR.fields_by_number[path[-1]].name, id)
