"""mmesh.ModelMesh: convert, call the manager, convert back."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.modelmesh.manager import ModelMeshManager, VModelStatus
from bridge.modelmesh.methods import MESH_SERVICE
from bridge.placement.model import ModelStatus
from bridge.registry.records import ModelInfo, SetVModel
from bridge.tfserving.messages import parse
from bridge.tfserving.reload import actor
from bridge.tfserving.rpc import Caller, Rpc
from model_repo_sync.protos.mmesh import model_mesh_pb2 as pb

SERVICE = MESH_SERVICE


class ModelMeshService:
    """The RPCs by name. New vmodels without an owner get `default_owner`."""

    def __init__(self, manager: ModelMeshManager, default_owner: str = "") -> None:
        self._manager = manager
        self._default_owner = default_owner

    def rpcs(self) -> Mapping[str, Rpc]:
        return {
            "registerModel": self.register_model,
            "unregisterModel": self.unregister_model,
            "getModelStatus": self.get_model_status,
            "ensureLoaded": self.ensure_loaded,
            "setVModel": self.set_vmodel,
            "deleteVModel": self.delete_vmodel,
            "getVModelStatus": self.get_vmodel_status,
        }

    async def register_model(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.RegisterModelRequest, request)
        status = await self._manager.register_model(
            message.modelId,
            _info(message.modelInfo),
            actor(caller),
            load_now=message.loadNow,
            sync=message.sync,
            last_used=message.lastUsedTime,
        )
        return _model_status(status).SerializeToString()

    async def unregister_model(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.UnregisterModelRequest, request)
        await self._manager.unregister_model(message.modelId, actor(caller))
        return pb.UnregisterModelResponse().SerializeToString()

    async def get_model_status(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.GetStatusRequest, request)
        return _model_status(self._manager.model_status(message.modelId)).SerializeToString()

    async def ensure_loaded(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.EnsureLoadedRequest, request)
        status = await self._manager.ensure_loaded(message.modelId, last_used=message.lastUsedTime, sync=message.sync)
        return _model_status(status).SerializeToString()

    async def set_vmodel(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.SetVModelRequest, request)
        status = await self._manager.set_vmodel(self._wanted(message), actor(caller), sync=message.sync)
        return _vmodel_status(status).SerializeToString()

    async def delete_vmodel(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.DeleteVModelRequest, request)
        await self._manager.delete_vmodel(message.vModelId, message.owner, actor(caller))
        return pb.DeleteVModelResponse().SerializeToString()

    async def get_vmodel_status(self, request: bytes, caller: Caller) -> bytes:
        message = parse(pb.GetVModelStatusRequest, request)
        return _vmodel_status(self._manager.vmodel_status(message.vModelId, message.owner)).SerializeToString()

    def _wanted(self, message: pb.SetVModelRequest) -> SetVModel:
        return SetVModel(
            id=message.vModelId,
            target=message.targetModelId,
            info=_info(message.modelInfo) if message.HasField("modelInfo") else None,
            auto_delete=message.autoDeleteTargetModel,
            update_only=message.updateOnly,
            load_now=message.loadNow,
            force=message.force,
            expected_target=message.expectedTargetModelId,
            owner=message.owner,
            default_owner=self._default_owner,
        )


def _info(message: pb.ModelInfo) -> ModelInfo:
    return ModelInfo(message.type, message.path, message.key)


def _model_status(status: ModelStatus) -> pb.ModelStatusInfo:
    copies = [
        pb.ModelStatusInfo.ModelCopyInfo(location=copy.instance, copyStatus=int(copy.state), time=copy.since_ms)
        for copy in status.copies
    ]
    return pb.ModelStatusInfo(status=int(status.status), errors=status.errors, modelCopyInfos=copies)


def _vmodel_status(status: VModelStatus) -> pb.VModelStatusInfo:
    message = pb.VModelStatusInfo(
        status=int(status.state), activeModelId=status.active, targetModelId=status.target, owner=status.owner
    )
    if status.active_status is not None:
        message.activeModelStatus.CopyFrom(_model_status(status.active_status))
    if status.target_status is not None:
        message.targetModelStatus.CopyFrom(_model_status(status.target_status))
    return message
