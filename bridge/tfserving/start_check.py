"""What tensorflow_model_server checks before it loads models, in the stock binary's order and with its sentences."""

from __future__ import annotations

from bridge.errors import InvalidArgument
from bridge.lifecycle import configuration
from bridge.lifecycle.source_config import model_configs
from bridge.settings import Settings
from bridge.tfserving import ssl_config, text_files
from bridge.tfserving.session_bundle import PLATFORM, SessionBundle, session_bundle
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig
from model_repo_sync.protos.tensorflow_serving.monitoring_config_pb2 import MonitoringConfig
from model_repo_sync.protos.tensorflow_serving.thread_pool_factory_config_pb2 import ThreadPoolFactoryConfig


class _Nothing:
    """The models of a server that starts: none, so no label can point at one."""

    def platform(self, model: str) -> None:
        return None

    def label(self, model: str, label: str) -> None:
        return None

    def is_available(self, model: str, version: int) -> bool:
        return False


def check(settings: Settings, thread_pool_factory_config_file: str = "") -> None:
    """Raises BridgeError for the first fault.

    The stock binary reads the files of thread pools, TLS and monitoring only after its models have loaded; their faults
    are told at once here.
    """
    _check_flags(settings)
    config = _model_server_config(settings)
    bundle = session_bundle(settings)
    _check_models(config, settings, bundle)
    if thread_pool_factory_config_file:
        text_files.read(thread_pool_factory_config_file, ThreadPoolFactoryConfig)
    if settings.ssl_config_file:
        ssl_config.read(settings.ssl_config_file)
    if settings.monitoring_config_file and settings.rest_api_port:
        text_files.read(settings.monitoring_config_file, MonitoringConfig)


def _check_flags(settings: Settings) -> None:
    if not settings.port and not settings.grpc_socket_path:
        raise InvalidArgument(
            "At least one of server_options.grpc_port or server_options.grpc_socket_path must be set."
        )
    if settings.use_alts_credentials and settings.ssl_config_file:
        raise InvalidArgument("Either use_alts_credentials must be false or ssl_config_file must be empty.")
    if not settings.model_base_path and not settings.model_config_file:
        raise InvalidArgument("Both server_options.model_base_path and server_options.model_config_file are empty!")


def _model_server_config(settings: Settings) -> ModelServerConfig:
    if settings.model_config_file:
        return text_files.read(settings.model_config_file, ModelServerConfig)
    config = ModelServerConfig()
    config.model_config_list.config.add(
        name=settings.model_name, base_path=settings.model_base_path, model_platform=PLATFORM
    )
    return config


def _check_models(config: ModelServerConfig, settings: Settings, bundle: SessionBundle) -> None:
    models = configuration.models(model_configs(config), configuration.Rules.of(settings), _Nothing())
    for model in models:
        if model.platform not in bundle.platforms:
            raise InvalidArgument(f"Model {model.name} requests unsupported platform {model.platform}")
