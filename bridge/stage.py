"""What a server has whoever decides for it: built once, used by every term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bridge.access_parts import AccessParts
from bridge.agents.mirrors import Mirrors
from bridge.executors import Executors
from bridge.inputs import Inputs
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.parts import Parts
from bridge.port_parts import PortParts
from bridge.registry_access import RegistryAccess
from bridge.state_dir import StateDir
from bridge.tfserving.metrics import ServingMetrics
from bridge.triton.embedded import EmbeddedTriton


@dataclass(frozen=True)
class Stage:
    """`triton` is the child, None where the settings name remote Tritons. `parts` end with the server; `cause` tells
    why it ends. `serving` and `mesh` are the metrics of the two faces."""

    inputs: Inputs
    state: StateDir
    access: RegistryAccess
    executors: Executors
    parts: Parts
    ports: PortParts
    guard: AccessParts
    mirrors: Mirrors | None
    triton: EmbeddedTriton | None
    serving: ServingMetrics
    mesh: MeshMetrics
    cause: Callable[[], str]
