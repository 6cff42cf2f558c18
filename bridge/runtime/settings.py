"""The settings of a sidecar: some of the server's, and a few of its own."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.errors import InvalidArgument
from bridge.settings import Settings

LISTEN = "127.0.0.1:8085"
"""Where ModelMesh looks when nothing is configured and unix:/tmp/mmesh/grpc.sock is not there."""

SHARED = (
    "grpc_channel_arguments",
    "enable_serialization_as_tensor_content",
    "enable_signature_method_name_check",
    "model_root",
    "storage_config_dir",
    "pvc_root",
    "modelmesh_default_model_bytes",
    "load_concurrency",
    "enable_model_warmup",
    "num_request_iterations_for_warmup",
    "op_libraries",
    "saved_model_tags",
    "platform_config_file",
    "model_load_timeout_seconds",
    "state_dir",
    "deployment_id",
    "triton_url",
    "triton_http_url",
    "triton_repository",
    "triton_capacity_bytes",
    "triton_ca_file",
    "triton_cert_file",
    "triton_key_file",
    "triton_tls",
    "triton_header",
    "triton_http_body_limit",
    "model_transfer",
    "device",
    "per_process_gpu_memory_fraction",
    "enable_batching",
    "batching_parameters_file",
    "enable_per_model_batching_parameters",
    "tensorflow_session_config_file",
    "tensorflow_session_parallelism",
    "tensorflow_intra_op_parallelism",
    "tensorflow_inter_op_parallelism",
    "mixed_precision",
    "runner_threads",
    "runner_queue_size",
    "recovery_wait_ms",
    "request_timeout_seconds",
    "drain_seconds",
    "log_level",
)
"""The server's settings that mean the same here."""


@dataclass(frozen=True)
class RuntimeSettings:
    """`listen` is HOST:PORT or unix:PATH; `max_concurrency` is per model, 0 for no limit."""

    server: Settings
    listen: str = LISTEN
    max_concurrency: int = 0
    allow_any_method: bool = False

    def check(self) -> None:
        """Raises InvalidArgument."""
        if len(self.server.triton_url) > 1:
            raise InvalidArgument("A sidecar works with one Triton: give --triton_url once, or not at all")
        host, _, port = self.listen.rpartition(":")
        if not self.listen.startswith("unix:") and not (host and port.isdecimal()):
            raise InvalidArgument(f"--listen={self.listen} is neither HOST:PORT nor unix:PATH")
