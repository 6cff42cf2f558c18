"""tensorflow.serving.ModelService: convert, ask the routes, convert back."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.errors import InvalidArgument, Unimplemented
from bridge.serving.control import RoutesView
from bridge.tfserving.messages import model_spec, parse
from bridge.tfserving.models import version_statuses
from bridge.tfserving.rpc import Rpc
from model_repo_sync.protos.tensorflow_serving.get_model_status_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
)

SERVICE = "tensorflow.serving.ModelService"


class ModelService:
    """The RPCs by name."""

    def __init__(self, view: RoutesView) -> None:
        self._view = view

    def rpcs(self) -> Mapping[str, Rpc]:
        return {
            "GetModelStatus": self.get_model_status,
            "HandleReloadConfigRequest": self.handle_reload_config_request,
        }

    async def get_model_status(self, request: bytes, timeout: float | None) -> bytes:
        message = parse(GetModelStatusRequest, request)
        if not message.HasField("model_spec"):
            raise InvalidArgument("Missing ModelSpec")
        response = GetModelStatusResponse()
        for status in version_statuses(self._view.routes, model_spec(message.model_spec)):
            row = response.model_version_status.add(version=status.version, state=int(status.state))
            row.status.error_code = int(status.code)
            row.status.error_message = status.message
        return response.SerializeToString()

    async def handle_reload_config_request(self, request: bytes, timeout: float | None) -> bytes:
        raise Unimplemented("HandleReloadConfigRequest is not served by this server.")
