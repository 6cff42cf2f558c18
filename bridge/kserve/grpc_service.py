"""inference.GRPCInferenceService: the V2 protocol over gRPC, and what makes sense of Triton's additions to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tritonclient.grpc import service_pb2

from bridge.codec.model_spec import ModelSpec
from bridge.errors import Unimplemented
from bridge.kserve import server
from bridge.kserve.forwarding import Relay
from bridge.kserve.inference import V2Inference, model_spec
from bridge.kserve.messages import InferRequest, InferResponse, infer_request
from bridge.kserve.stream import Stream
from bridge.serving.addressing import TF_SERVING, Addressing
from bridge.serving.infer import InferenceCore
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving.messages import parse
from bridge.tfserving.rpc import Caller, Rpc, Service, answered, unmeasured

SERVICE = "inference.GRPCInferenceService"

_REPOSITORY = "The bridge itself decides what its Tritons load: change its configuration or its registered models."
_SHARED_MEMORY = "The bridge does not share memory with its clients: send and receive contents."
_SETTINGS = "The settings of a Triton are not those of the bridge's clients."
_REFUSED = {
    "RepositoryModelLoad": _REPOSITORY,
    "RepositoryModelUnload": _REPOSITORY,
    "SystemSharedMemoryStatus": _SHARED_MEMORY,
    "SystemSharedMemoryRegister": _SHARED_MEMORY,
    "SystemSharedMemoryUnregister": _SHARED_MEMORY,
    "CudaSharedMemoryStatus": _SHARED_MEMORY,
    "CudaSharedMemoryRegister": _SHARED_MEMORY,
    "CudaSharedMemoryUnregister": _SHARED_MEMORY,
    "TraceSetting": _SETTINGS,
    "LogSettings": _SETTINGS,
}


class GrpcInferenceService:
    """The RPCs by name, for one port with its `addressing`."""

    def __init__(self, core: InferenceCore, addressing: Addressing = TF_SERVING) -> None:
        self._view = core.view
        self._inference = V2Inference(core)
        self._addressing = addressing

    def service(self, observe: RequestObserver = unobserved, used: Callable[[int], None] = unmeasured) -> Service:
        """The service, to be added to a server. `observe` and `used` as in `bridge.tfserving.rpc.answered`."""
        unary = {name: answered(rpc, name, observe, used) for name, rpc in self.rpcs().items()}
        return Service(unary, {"ModelStreamInfer": Stream(self._stream_infer, observe, used).responses})

    def rpcs(self) -> Mapping[str, Rpc]:
        """The unary RPCs."""
        refused = {name: partial(_refuse, sentence) for name, sentence in _REFUSED.items()}
        return {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ServerMetadata": self._server_metadata,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model_metadata,
            "ModelConfig": self._model_config,
            "ModelInfer": self._model_infer,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._repository_index,
            **refused,
        }

    async def _server_live(self, request: bytes, caller: Caller) -> bytes:
        return _data(service_pb2.ServerLiveResponse(live=True))

    async def _server_ready(self, request: bytes, caller: Caller) -> bytes:
        return _data(service_pb2.ServerReadyResponse(ready=server.is_ready(self._view.settled)))

    async def _server_metadata(self, request: bytes, caller: Caller) -> bytes:
        return _data(server.metadata())

    async def _model_ready(self, request: bytes, caller: Caller) -> bytes:
        spec = self._spec(service_pb2.ModelReadyRequest, request, caller)
        return _data(service_pb2.ModelReadyResponse(ready=await self._inference.ready(spec, caller.timeout)))

    async def _model_metadata(self, request: bytes, caller: Caller) -> bytes:
        spec = self._spec(service_pb2.ModelMetadataRequest, request, caller)
        return _data(await self._inference.metadata(spec, caller.timeout))

    async def _model_config(self, request: bytes, caller: Caller) -> bytes:
        spec = self._spec(service_pb2.ModelConfigRequest, request, caller)
        return _data(await self._inference.configuration(spec, caller.timeout))

    async def _model_statistics(self, request: bytes, caller: Caller) -> bytes:
        message = parse(service_pb2.ModelStatisticsRequest, request)
        spec = self._address(message.name, message.version, caller) if message.name else ModelSpec()
        return _data(await self._inference.statistics(spec, caller.timeout))

    async def _model_infer(self, request: bytes, caller: Caller) -> bytes:
        message = infer_request(request)
        spec = self._address(message.head.model_name, message.head.model_version, caller)
        return (await self._inference.infer(spec, message, caller.timeout)).serialized()

    async def _stream_infer(self, message: InferRequest, caller: Caller, relay: Relay) -> InferResponse | None:
        spec = self._address(message.head.model_name, message.head.model_version, caller)
        return await self._inference.stream(spec, message, caller.timeout, relay)

    async def _repository_index(self, request: bytes, caller: Caller) -> bytes:
        message = parse(service_pb2.RepositoryIndexRequest, request)
        return _data(server.index(self._view.settled, ready_only=message.ready))

    def _spec(self, kind: Any, request: bytes, caller: Caller) -> ModelSpec:
        message = parse(kind, request)
        return self._address(message.name, message.version, caller)

    def _address(self, name: str, version: str, caller: Caller) -> ModelSpec:
        return self._addressing.address(model_spec(name, version), caller.entries) or ModelSpec()


async def _refuse(sentence: str, request: bytes, caller: Caller) -> bytes:
    raise Unimplemented(sentence)


def _data(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
