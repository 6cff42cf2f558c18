"""Where the Prometheus page is on the REST port, as --monitoring_config_file says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bridge.errors import HTTP_STATUS, Code
from bridge.tfserving import text_files
from bridge.tfserving.rest_api import Reply
from model_repo_sync.protos.tensorflow_serving.monitoring_config_pb2 import MonitoringConfig

DEFAULT_PATH = "/monitoring/prometheus/metrics"
PLAIN_TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """The page at `path`, for any method. `render` makes its text."""

    path: str
    render: Callable[[], Awaitable[bytes]]

    def serves(self, target: str) -> bool:
        """Whether a request is for this page; `target` is the undecoded path with its query."""
        return target.partition("?")[0] == self.path

    async def reply(self, target: str) -> Reply:
        """The page, or the refusal of a query."""
        if target != self.path:
            refusal = f"Unexpected path: {target}. Should be {self.path}"
            return Reply(HTTP_STATUS[Code.INVALID_ARGUMENT], refusal.encode("utf-8", "surrogateescape"), PLAIN_TEXT)
        return Reply(200, await self.render(), PLAIN_TEXT)


def metrics_path(config_file: str) -> str | None:
    """The path of the page that a text-format MonitoringConfig turns on; None without a file or where it is off.

    Raises BridgeError for a file that cannot be used.
    """
    if not config_file:
        return None
    config = text_files.read(config_file, MonitoringConfig).prometheus_config
    return config.path or DEFAULT_PATH if config.enable else None
