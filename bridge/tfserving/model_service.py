"""tensorflow.serving.ModelService: convert, ask the routes, convert back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from bridge.errors import Code, InvalidArgument, Unimplemented
from bridge.serving.control import RoutesView
from bridge.tfserving.messages import model_spec, parse
from bridge.tfserving.models import version_statuses
from bridge.tfserving.rpc import Caller, Rpc
from model_repo_sync.protos.tensorflow_serving.get_model_status_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
)
from model_repo_sync.protos.tensorflow_serving.model_management_pb2 import ReloadConfigRequest, ReloadConfigResponse
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig

Reload = Callable[[ModelServerConfig, Caller], Awaitable[None]]
"""Serve what a client lists. Raises BridgeError."""
FirstValue = Callable[[str], int]
"""The value of the first cell of a metric such as /tensorflow/serving/request_count, 0 for an unknown one."""

SERVICE = "tensorflow.serving.ModelService"


class ModelService:
    """The RPCs by name."""

    def __init__(self, view: RoutesView, reload: Reload | None = None, metric: FirstValue | None = None) -> None:
        """`reload` takes a new configuration, a server without it refuses; `metric` reads a metric by its name."""
        self._view = view
        self._reload = reload
        self._metric = metric or (lambda name: 0)

    def rpcs(self) -> Mapping[str, Rpc]:
        return {"GetModelStatus": self.get_model_status, **self.changing_rpcs()}

    def changing_rpcs(self) -> Mapping[str, Rpc]:
        """Those that change what is served."""
        return {"HandleReloadConfigRequest": self.handle_reload_config_request}

    async def get_model_status(self, request: bytes, caller: Caller) -> bytes:
        message = parse(GetModelStatusRequest, request)
        if not message.HasField("model_spec"):
            raise InvalidArgument("Missing ModelSpec")
        response = GetModelStatusResponse()
        for status in version_statuses(self._view.settled, model_spec(message.model_spec)):
            row = response.model_version_status.add(version=status.version, state=int(status.state))
            row.status.error_code = int(status.code)
            row.status.error_message = status.message
        return response.SerializeToString()

    async def handle_reload_config_request(self, request: bytes, caller: Caller) -> bytes:
        message = parse(ReloadConfigRequest, request)
        if self._reload is None:
            raise Unimplemented("HandleReloadConfigRequest is not served by this server.")
        before = {name: self._metric(name) for name in message.metric_names}
        await self._reload(message.config, caller)
        response = ReloadConfigResponse()
        response.status.error_code = int(Code.OK)
        for name, value in before.items():
            response.metric.add(name=name, int64_value_increase=self._metric(name) - value)
        return response.SerializeToString()
