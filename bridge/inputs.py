"""What files and variables tell a server, read before anything starts: a fault in them ends the start at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from bridge import access_inputs
from bridge.access_inputs import AccessInputs
from bridge.client_inputs import ClientInputs
from bridge.client_ports import channel_arguments
from bridge.modelmesh import environment, static_models, type_constraints
from bridge.modelmesh.environment import MeshEnvironment, MetricsOptions
from bridge.modelmesh.static_models import StaticModel
from bridge.placement.constraints import TypeConstraints
from bridge.settings import Settings
from bridge.tfserving import ssl_config
from bridge.tfserving.metrics_page import metrics_path
from bridge.tfserving.session_bundle import SessionBundle, session_bundle
from bridge.tfserving.ssl_config import ServerTls

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inputs:
    """`mesh` and `listed_models` are ModelMesh's variables, empty where its port is off; `page_path` is where TF
    Serving's Prometheus page lies, None without one."""

    settings: Settings
    bundle: SessionBundle
    tls: ServerTls | None
    channel_arguments: Mapping[str, int | str]
    page_path: str | None
    mesh: MeshEnvironment
    listed_models: tuple[StaticModel, ...]
    type_constraints: TypeConstraints
    access: AccessInputs
    admin_tls: ServerTls | None

    @property
    def mesh_metrics(self) -> MetricsOptions:
        return self.mesh.metrics or MetricsOptions()

    @property
    def secure_ports(self) -> tuple[str, ...]:
        """The ports of operators that are TLS."""
        return ("admin",) if self.admin_tls else ()

    @property
    def clients(self) -> ClientInputs:
        """The part that the ports of clients need."""
        return ClientInputs(
            settings=self.settings,
            tags=tuple(self.bundle.tags),
            tls=self.tls,
            mesh_tls=self.mesh.tls or self.tls,
            channel_arguments=self.channel_arguments,
            page_path=self.page_path,
            mesh_metrics=self.mesh_metrics,
        )


def read(settings: Settings, variables: Mapping[str, str]) -> Inputs:
    """Read everything. Raises BridgeError with one sentence for what cannot be used."""
    listed = static_models.from_environment(variables) if settings.modelmesh_port else ()
    mesh = environment.read(variables if settings.modelmesh_port else {})
    bundle = session_bundle(settings)
    for sentence in bundle.warnings:
        logger.warning("%s", sentence)
    return Inputs(
        settings=settings,
        bundle=bundle,
        tls=ssl_config.read(settings.ssl_config_file) if settings.ssl_config_file else None,
        channel_arguments=channel_arguments(settings.grpc_channel_arguments),
        page_path=metrics_path(settings.monitoring_config_file) if settings.rest_api_port else None,
        mesh=mesh,
        listed_models=listed,
        type_constraints=type_constraints.from_environment(variables if settings.modelmesh_port else {}),
        access=access_inputs.read(settings),
        admin_tls=ssl_config.read(settings.admin_ssl_config_file) if settings.admin_ssl_config_file else None,
    )
