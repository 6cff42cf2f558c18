"""HandleReloadConfigRequest: from the caller of the RPC to the actor of the change."""

from __future__ import annotations

from bridge.access import actors
from bridge.access.gates import RPC
from bridge.lifecycle.configurator import Configurator
from bridge.registry.records import Actor
from bridge.tfserving.model_service import Reload
from bridge.tfserving.rpc import Caller
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig


def reloader(configurator: Configurator) -> Reload:
    """What the ModelService calls to change the configuration."""

    async def reload(config: ModelServerConfig, caller: Caller) -> None:
        await configurator.reload(config, actor(caller), caller.timeout)

    return reload


def actor(caller: Caller) -> Actor:
    """Who changes something by an RPC; the reason and the request id come from metadata."""
    identity = caller.identity or caller.credentials.unproven()
    return actors.actor(identity, RPC, caller.metadata)
