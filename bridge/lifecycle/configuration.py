"""What the command line or the config file says should be served, checked and in the registry's form."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.errors import BridgeError, Code, InvalidArgument, NotFound
from bridge.registry.records import ModelSpec
from bridge.settings import Settings
from model_repo_sync.config_files import ConfigFileError, parse_model_config
from model_repo_sync.policy import Latest, from_proto
from model_repo_sync.protos.tensorflow_serving import model_server_config_pb2

ORIGIN = "start"
"""Flags and file are one origin: what a start was told. Changing from one to the other is a change of content."""


@dataclass(frozen=True)
class Configuration:
    """One revision: its text, the hash that says whether it changed, and its models, or why it is refused."""

    text: str
    models: tuple[ModelSpec, ...]
    error: BridgeError | None = None

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def from_settings(settings: Settings) -> Configuration | None:
    """The configuration that this start was given, None when it was given none.

    A file that cannot be used makes a Configuration with `error` set. As in TF Serving, --model_config_file wins.
    """
    if settings.model_config_file:
        return _from_file(settings.model_config_file, settings)
    if settings.model_base_path:
        text = json.dumps({"model_name": settings.model_name, "model_base_path": settings.model_base_path})
        spec = ModelSpec(settings.model_name, settings.model_base_path, "tensorflow", Latest().to_json(), {})
        return _checked(text, [spec], settings)
    return None


def specs(config: model_server_config_pb2.ModelServerConfig) -> list[ModelSpec]:
    """The models of a ModelServerConfig. Raises InvalidArgument with TF Serving's sentences."""
    if config.WhichOneof("config") == "custom_model_config":
        raise InvalidArgument("ModelServer does not yet support custom model config.")
    return [_spec(model) for model in config.model_config_list.config]


def check(models: Sequence[ModelSpec], settings: Settings) -> None:
    """Raise InvalidArgument, with TF Serving's sentence where it has one, for models that cannot be served."""
    seen = set()
    for model in models:
        if model.name in seen:
            raise InvalidArgument(f"Illegal to list model {model.name} multiple times in config list")
        seen.add(model.name)
    for model in models:
        if not model.base_path.startswith("/") and "://" not in model.base_path:
            raise InvalidArgument(
                f"Expected model {model.name} to have an absolute path or URI; got base_path()={model.base_path}"
            )
        if model.platform != "tensorflow":
            raise InvalidArgument(f"Model {model.name} requests unsupported platform {model.platform}")
        _check_allowed(model, settings.allowed_base_paths)


def _from_file(path: str, settings: Settings) -> Configuration:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        return Configuration("", (), NotFound(f"{path}; {os.strerror(error.errno or 0)}"))
    except UnicodeDecodeError:
        return Configuration("", (), InvalidArgument(f"Invalid protobuf file: '{path}'"))
    try:
        return _checked(text, specs(parse_model_config(text, path)), settings)
    except ConfigFileError as error:
        return Configuration(text, (), BridgeError(str(error), Code(error.code)))
    except BridgeError as error:
        return Configuration(text, (), error)


def _checked(text: str, models: list[ModelSpec], settings: Settings) -> Configuration:
    try:
        check(models, settings)
    except BridgeError as error:
        return Configuration(text, (), error)
    return Configuration(text, tuple(models))


def _spec(model: model_server_config_pb2.ModelConfig) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        base_path=model.base_path,
        platform=_platform(model),
        policy=from_proto(model.model_version_policy).to_json(),
        labels=dict(model.version_labels),
    )


def _platform(model: model_server_config_pb2.ModelConfig) -> str:
    if bool(model.model_type) == bool(model.model_platform):
        which, conjunction = ("both", "and") if model.model_type else ("neither", "nor")
        raise InvalidArgument(
            f"Illegal setting {which} ModelServerConfig::model_type (deprecated) "
            f"{conjunction} ModelServerConfig::model_platform, model name is {model.name}"
        )
    if model.model_type and model.model_type != model_server_config_pb2.TENSORFLOW:
        raise InvalidArgument(f"ModelServerConfig::model_type choice {model.model_type} not supported.")
    return model.model_platform or "tensorflow"


def _check_allowed(model: ModelSpec, allowed: str) -> None:
    roots = [os.path.realpath(root) for root in allowed.split(",") if root]
    path = os.path.realpath(model.base_path)
    if roots and not any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots):
        raise InvalidArgument(f"base path {model.base_path} of model {model.name} lies outside --allowed_base_paths")
