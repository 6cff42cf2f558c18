"""What the request path and the ports of clients are told at the start; it can be handed to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.modelmesh.environment import MetricsOptions
from bridge.settings import Settings
from bridge.tfserving.ssl_config import ServerTls
from bridge.transport.choice import OpenServer, opener


@dataclass(frozen=True)
class ClientInputs:
    """`tags` are those of the MetaGraphs that serve, `mesh_tls` is that of ModelMesh's port, and `page_path` is where
    TF Serving's Prometheus page lies, None without one."""

    settings: Settings
    tags: tuple[str, ...]
    tls: ServerTls | None
    mesh_tls: ServerTls | None
    channel_arguments: Mapping[str, int | str]
    page_path: str | None
    mesh_metrics: MetricsOptions

    def open_server(self, tls: ServerTls | None, *, reuse_port: bool = False) -> OpenServer:
        """Makes the server of a gRPC port; without `tls` it is clear text. Raises InvalidArgument.

        With `reuse_port` servers in other processes may share the port.
        """
        return opener(
            self.settings.grpc_server,
            tls=tls,
            alts=self.settings.use_alts_credentials,
            arguments=self.channel_arguments,
            reuse_port=reuse_port,
        )
