"""mmesh.ModelRuntime on messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from bridge import __version__
from bridge.errors import BridgeError, InvalidArgument
from bridge.lifecycle.cache_instance import ControlledInstance
from bridge.lifecycle.instance import InstanceController
from bridge.modelmesh.methods import METHODS
from bridge.registry.records import ModelInfo
from bridge.runtime.models import HostedModels
from bridge.runtime.status import Parameters
from bridge.tfserving.messages import parse
from bridge.tfserving.rpc import Caller, Rpc
from model_repo_sync.protos.mmesh import model_runtime_pb2 as pb

logger = logging.getLogger(__name__)

SERVICE = "mmesh.ModelRuntime"


class ModelRuntimeService:
    """The RPCs by name, over the one Triton of `controller`, whose capacity `instance` knows."""

    def __init__(
        self,
        models: HostedModels,
        controller: InstanceController,
        instance: ControlledInstance,
        parameters: Parameters,
    ) -> None:
        self._models = models
        self._controller = controller
        self._instance = instance
        self._parameters = parameters
        self._start: asyncio.Task[str] | None = None

    def rpcs(self) -> Mapping[str, Rpc]:
        return {
            "loadModel": self.load_model,
            "unloadModel": self.unload_model,
            "predictModelSize": self.predict_model_size,
            "modelSize": self.model_size,
            "runtimeStatus": self.runtime_status,
        }

    async def load_model(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.LoadModelRequest, request)
        info = ModelInfo(message.modelType, message.modelPath, message.modelKey)
        size = await self._models.load(_id(message.modelId), info)
        response = pb.LoadModelResponse(sizeInBytes=size, maxConcurrency=self._parameters.max_concurrency)
        return response.SerializeToString()

    async def unload_model(self, request: bytes, caller: Caller) -> bytes:
        await self._models.unload(_id(parse(pb.UnloadModelRequest, request).modelId))
        return pb.UnloadModelResponse().SerializeToString()

    async def predict_model_size(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.PredictModelSizeRequest, request)
        size = self._models.predicted_size(ModelInfo(message.modelType, message.modelPath, message.modelKey))
        return pb.PredictModelSizeResponse(sizeInBytes=size).SerializeToString()

    async def model_size(self, request: bytes, caller: Caller) -> bytes:
        size = await self._models.size(_id(parse(pb.ModelSizeRequest, request).modelId))
        return pb.ModelSizeResponse(sizeInBytes=size).SerializeToString()

    async def runtime_status(self, request: bytes, caller: Caller) -> bytes:
        """READY once Triton is up and empty of what a ModelMesh before this one had loaded.

        Every call is a new start of ModelMesh, except that calls which overlap share one purge: a late one must not
        take off what was loaded after the first one's answer. Raises FailedPrecondition for a Triton that is too small.
        """
        parse(pb.RuntimeStatusRequest, request)
        if not self._controller.up:
            return pb.RuntimeStatusResponse(status=pb.RuntimeStatusResponse.STARTING).SerializeToString()
        self._parameters.check_capacity(self._instance.capacity)
        if self._start is None or self._start.done():
            self._start = asyncio.create_task(self._empty(), name="purge")
        try:
            version = await asyncio.shield(self._start)
        except BridgeError as error:
            logger.warning("Triton cannot be emptied yet: %s", error.message)
            return pb.RuntimeStatusResponse(status=pb.RuntimeStatusResponse.STARTING).SerializeToString()
        return self._ready(version).SerializeToString()

    async def _empty(self) -> str:
        """Take everything off; Triton's version. Raises BridgeError."""
        await self._models.purge()
        server = self._controller.server
        return (await server.server_metadata()).version if server is not None else ""

    def _ready(self, triton_version: str) -> pb.RuntimeStatusResponse:
        parameters = self._parameters
        return pb.RuntimeStatusResponse(
            status=pb.RuntimeStatusResponse.READY,
            capacityInBytes=self._instance.capacity,
            maxLoadingConcurrency=parameters.load_concurrency,
            modelLoadingTimeoutMs=parameters.load_timeout_ms,
            defaultModelSizeInBytes=parameters.default_size,
            runtimeVersion=f"triton-bridge {__version__}, Triton {triton_version}",
            methodInfos={
                name: pb.RuntimeStatusResponse.MethodInfo(idInjectionPath=path) for name, path in METHODS.items()
            },
            limitModelConcurrency=parameters.max_concurrency > 0,
            allowAnyMethod=parameters.allow_any_method,
        )


def _id(text: str) -> str:
    if not text:
        raise InvalidArgument("must provide non-empty modelId")
    return text
