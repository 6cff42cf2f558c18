"""A FileSystemStoragePathSourceConfig as configuration: what a model server's custom_model_config may hold here.

TF Serving's own binary ends on any custom_model_config. This one kind says how base paths are watched, which a
ModelConfigList cannot.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from bridge.errors import InvalidArgument, NotFound, Unavailable
from bridge.registry.records import ModelSpec
from bridge.settings import Settings
from model_repo_sync import object_store, sources
from model_repo_sync.policy import aspired, from_json
from model_repo_sync.protos.tensorflow_serving.file_system_storage_path_source_pb2 import (
    FileSystemStoragePathSourceConfig,
)
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelConfig, ModelServerConfig
from model_repo_sync.protos.text import TextFormatError, from_text


@dataclass(frozen=True)
class SourceRules:
    """How base paths are watched.

    `poll_wait` is in seconds, as TF Serving's --file_system_poll_wait_seconds: 0 looks once, negative never. Object
    stores are looked at every `store_poll_wait` seconds where that is longer: their listings cost money.
    `keep_when_empty` keeps what serves when nothing is found, `fail_when_empty` refuses a start or reload then.
    """

    poll_wait: float
    keep_when_empty: bool
    fail_when_empty: bool = False
    store_poll_wait: float = 0

    def pause(self, base_path: str) -> float | None:
        """Seconds from one look at a base path to the next, None for no further one."""
        if self.poll_wait <= 0:
            return None
        if object_store.local_path(base_path) is not None:
            return self.poll_wait
        # Many models in one store should not all ask it at the same moment.
        return max(self.poll_wait, self.store_poll_wait * random.uniform(0.9, 1.1))


def rules(settings: Settings, text: str = "") -> SourceRules:
    """The rules of the configuration `text`, those of the settings where it has none of its own."""
    config = _of_text(text)
    if config is None:
        return SourceRules(
            settings.file_system_poll_wait_seconds,
            settings.servable_versions_always_present,
            settings.fail_if_zero_versions_at_startup,
            settings.object_store_poll_wait_seconds,
        )
    return SourceRules(
        config.file_system_poll_wait_seconds,
        config.servable_versions_always_present,
        config.servable_versions_always_present or config.fail_if_zero_versions_at_startup,
        settings.object_store_poll_wait_seconds,
    )


def model_configs(config: ModelServerConfig) -> list[ModelConfig]:
    """The models of either kind of configuration. Raises InvalidArgument for a custom one of another type."""
    if config.WhichOneof("config") != "custom_model_config":
        return list(config.model_config_list.config)
    source = FileSystemStoragePathSourceConfig()
    if not config.custom_model_config.Unpack(source):
        raise InvalidArgument(
            "ModelServer does not yet support custom model config other than "
            f"{source.DESCRIPTOR.full_name}; got '{config.custom_model_config.type_url}'"
        )
    return list(_models(source))


def check_versions(models: Iterable[ModelSpec]) -> None:
    """Raise NotFound for a model whose policy finds no version, as fail_if_zero_versions_at_startup wants it."""
    for model in models:
        try:
            scan = sources.scan_base_path(model.base_path)
        except sources.BasePathError as error:
            raise NotFound(f"Could not find base path {model.base_path} for servable {model.name}") from error
        except OSError as error:
            raise Unavailable(
                f"Could not read base path {model.base_path} of {model.name}: {error.strerror or error}"
            ) from error
        if not aspired(scan.versions, from_json(model.policy), model.name).versions:
            raise NotFound(f"Unable to find a numerical version path for servable {model.name} at: {model.base_path}")


def _models(source: FileSystemStoragePathSourceConfig) -> Iterable[ModelConfig]:
    if source.servable_name or source.base_path:
        yield ModelConfig(name=source.servable_name, base_path=source.base_path, model_platform="tensorflow")
    for servable in source.servables:
        model = ModelConfig(name=servable.servable_name, base_path=servable.base_path, model_platform="tensorflow")
        model.model_version_policy.CopyFrom(servable.servable_version_policy)
        yield model


def _of_text(text: str) -> FileSystemStoragePathSourceConfig | None:
    try:
        config = from_text(text, ModelServerConfig)
    except TextFormatError:
        return None
    source = FileSystemStoragePathSourceConfig()
    custom = config.WhichOneof("config") == "custom_model_config"
    return source if custom and config.custom_model_config.Unpack(source) else None
