"""What clients may change, and what only the control plane can tell: the RPCs that the ports of clients leave to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.client_parts import Management
from bridge.inputs import Inputs
from bridge.lifecycle.configurator import Configurator
from bridge.modelmesh import service as model_mesh
from bridge.modelmesh.mesh import ModelMesh
from bridge.modelmesh.methods import MESH_RPCS
from bridge.modelmesh.service import ModelMeshService
from bridge.request_parts import Meters, RequestPath
from bridge.settings import Settings
from bridge.tfserving import model_service
from bridge.tfserving.batching_metrics import BatchingMetrics
from bridge.tfserving.model_service import ModelService
from bridge.tfserving.reload import reloader
from bridge.tfserving.rpc import Caller, Rpc
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig


def rpc_names(settings: Settings) -> Mapping[str, Sequence[str]]:
    """The methods that are left to the control plane, by service."""
    names: dict[str, Sequence[str]] = {model_service.SERVICE: ("HandleReloadConfigRequest",)}
    if settings.modelmesh_port:
        names[model_mesh.SERVICE] = MESH_RPCS
    return names


def management(
    inputs: Inputs, configurator: Configurator, mesh: ModelMesh | None, path: RequestPath, meters: Meters
) -> Management:
    """What this process does for its own ports of clients, and for its workers'."""
    change, counts = reloader(configurator), meters.own

    async def reload(config: ModelServerConfig, caller: Caller) -> None:
        await counts.refresh()
        await change(config, caller)
        await counts.refresh()

    async def page() -> bytes:
        await counts.refresh()
        return await batches.page()

    service = ModelService(path.view, reload, meters.serving.first_value)
    rpcs: dict[str, Mapping[str, Rpc]] = {model_service.SERVICE: service.changing_rpcs()}
    if mesh is not None:
        owner = inputs.settings.modelmesh_default_vmodel_owner
        rpcs[model_mesh.SERVICE] = ModelMeshService(mesh.manager, owner).rpcs()
    batches = BatchingMetrics(path.runners if inputs.bundle.batching else None, meters.serving)
    return Management(rpcs, page)
