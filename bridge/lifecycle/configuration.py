"""What the flags, a file or a client say should be served: TF Serving's checks, in its order and with its sentences."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.errors import BridgeError, Code, FailedPrecondition, InvalidArgument, NotFound
from bridge.lifecycle.request_logging import request_logging
from bridge.lifecycle.source_config import model_configs
from bridge.registry.records import ModelSpec
from bridge.settings import Settings
from model_repo_sync.config_files import ConfigFileError, parse_model_config
from model_repo_sync.object_store import local_path
from model_repo_sync.policy import from_proto
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import (
    TENSORFLOW,
    ModelConfig,
    ModelServerConfig,
)
from model_repo_sync.protos.text import from_text, to_text

PLATFORM = "tensorflow"


class Served(Protocol):
    """What a configuration is checked against: the models of now."""

    def platform(self, model: str) -> str | None:
        """The platform of a model that is configured now, None for any other."""

    def label(self, model: str, label: str) -> int | None:
        """The version that a label points at now."""

    def is_available(self, model: str, version: int) -> bool: ...


@dataclass(frozen=True)
class Configuration:
    """One revision: its text, the hash that says whether it changed, and its models, or why it is refused."""

    text: str
    models: tuple[ModelSpec, ...] = ()
    error: BridgeError | None = None

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Rules:
    """`allowed_base_paths` are directories, or URLs, that every base path has to lie in, none for anywhere; so are
    `allowed_log_paths` for logged requests.

    `unavailable_labels` lets a new label point at a version that does not serve yet, as
    --allow_version_labels_for_unavailable_models does.
    """

    allowed_base_paths: tuple[str, ...] = ()
    unavailable_labels: bool = False
    allowed_log_paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        return cls(
            _directories(settings.allowed_base_paths),
            settings.allow_version_labels_for_unavailable_models,
            _directories(settings.allowed_request_log_paths),
        )


def given(settings: Settings) -> Configuration | None:
    """The configuration that a start was given, None when it was given none.

    As in TF Serving, --model_config_file wins over --model_base_path. A configuration that cannot be used has `error`.
    """
    rules = Rules.of(settings)
    if settings.model_config_file:
        return from_file(settings.model_config_file, rules)
    if not settings.model_base_path:
        return None
    config = ModelServerConfig()
    config.model_config_list.config.add(
        name=settings.model_name, base_path=settings.model_base_path, model_platform=PLATFORM
    )
    return _checked(to_text(config), config, rules)


def from_file(path: str, rules: Rules) -> Configuration:
    """The configuration in a text-format file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        return Configuration("", error=NotFound(f"{path}; {os.strerror(error.errno or 0)}"))
    if not text:
        # TF Serving maps the file into memory, which fails for no bytes. Editors leave it so for a moment, too.
        return Configuration("", error=InvalidArgument(f"{path}; {os.strerror(errno.EINVAL)}"))
    try:
        config = parse_model_config(text, path)
    except ConfigFileError as error:
        return Configuration(text, error=BridgeError(str(error), Code(error.code)))
    checked = _checked(text, config, rules)
    if checked.error is None:
        return checked
    return Configuration(text, error=BridgeError(f"{path}: {checked.error.message}", checked.error.code))


def after(before: str, configuration: Configuration) -> Configuration:
    """`configuration` as it may follow the one whose text is `before`: one that says nothing at all may not, as in TF
    Serving, unless that one said nothing either."""
    if configuration.error is not None or _says_something(configuration.text) or not _says_something(before):
        return configuration
    error = FailedPrecondition(
        "Cannot transition to requested config. It is only legal to transition from one ModelConfigList to another."
    )
    return Configuration(configuration.text, error=error)


def requested(config: ModelServerConfig, served: Served, rules: Rules) -> Configuration:
    """The configuration that a client asks for, labels checked against what serves now. Raises BridgeError."""
    if config.WhichOneof("config") != "model_config_list":
        raise InvalidArgument(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. "
            "Only ModelConfigList is currently supported"
        )
    return Configuration(to_text(config), tuple(models(config.model_config_list.config, rules, served)))


def models(configs: Sequence[ModelConfig], rules: Rules, served: Served | None = None) -> list[ModelSpec]:
    """The models of a list. Labels are checked against `served`; without it each waits for its version.

    Raises BridgeError for the first fault, in the order in which TF Serving looks for them (server_core.cc).
    """
    _check_names(configs)
    _check_base_paths(configs, rules.allowed_base_paths)
    if served is not None:
        _check_same_platforms(configs, served)
        _check_labels(configs, served, rules.unavailable_labels)
    for config in configs:
        if platform(config) != PLATFORM:
            raise InvalidArgument(f"Model {config.name} requests unsupported platform {config.model_platform}")
    return [_spec(config, rules) for config in configs]


def platform(config: ModelConfig) -> str:
    """The platform of a model, by either of its two fields. Raises InvalidArgument."""
    if bool(config.model_type) == bool(config.model_platform):
        which, conjunction = ("both", "and") if config.model_type else ("neither", "nor")
        raise InvalidArgument(
            f"Illegal setting {which} ModelServerConfig::model_type (deprecated) "
            f"{conjunction} ModelServerConfig::model_platform, model name is {config.name}"
        )
    if config.model_type and config.model_type != TENSORFLOW:
        raise InvalidArgument(f"ModelServerConfig::model_type choice {config.model_type} not supported.")
    return config.model_platform or PLATFORM


def _checked(text: str, config: ModelServerConfig, rules: Rules) -> Configuration:
    try:
        return Configuration(text, tuple(models(model_configs(config), rules)))
    except BridgeError as error:
        return Configuration(text, error=error)


def _says_something(text: str) -> bool:
    return from_text(text, ModelServerConfig).WhichOneof("config") is not None


def _check_names(configs: Iterable[ModelConfig]) -> None:
    seen = set()
    for config in configs:
        if config.name in seen:
            raise InvalidArgument(f"Illegal to list model {config.name} multiple times in config list")
        seen.add(config.name)


def _check_base_paths(configs: Iterable[ModelConfig], allowed: Collection[str]) -> None:
    for config in configs:
        path = config.base_path
        if not path.startswith("/") and "://" not in path:
            raise InvalidArgument(
                f"Expected model {config.name} to have an absolute path or URI; got base_path()={path}"
            )
        if allowed and not any(_lies_in(_real(path), root) for root in allowed):
            raise InvalidArgument(f"base path {path} of model {config.name} lies outside --allowed_base_paths")


def _directories(setting: str) -> tuple[str, ...]:
    return tuple(_real(directory) for directory in setting.split(",") if directory)


def _real(path: str) -> str:
    """A path as it can be compared: links and `..` resolved, a URL's scheme and bucket as they are meant."""
    local = local_path(path)
    if local is not None:
        return os.path.realpath(local)
    kind, _, place = path.partition("://")
    return f"{kind.lower()}://{posixpath.normpath(place)}"


def _lies_in(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _check_same_platforms(configs: Iterable[ModelConfig], served: Served) -> None:
    for config in configs:
        old = served.platform(config.name)
        if old is not None and platform(config) != old:
            raise InvalidArgument(
                f"Illegal to change a model's platform. For model {config.name} platform was {old} and new platform "
                f"requested is {platform(config)}"
            )


def _check_labels(configs: Iterable[ModelConfig], served: Served, unavailable_labels: bool) -> None:
    for config in configs:
        for label, version in sorted(config.version_labels.items()):
            target = served.label(config.name, label)
            free = unavailable_labels and target in (None, version)
            if not free and not served.is_available(config.name, version):
                raise label_refused(config.name, version)


def label_refused(model: str, version: int) -> FailedPrecondition:
    """TF Serving's refusal of a label whose version does not serve."""
    return FailedPrecondition(
        f"Request to assign label to version {version} of model {model}, which is not currently available for inference"
    )


def _spec(config: ModelConfig, rules: Rules) -> ModelSpec:
    return ModelSpec(
        name=config.name,
        base_path=config.base_path,
        platform=platform(config),
        policy=from_proto(config.model_version_policy).to_json(),
        labels=_labels(config.version_labels),
        logging=request_logging(config, rules.allowed_log_paths),
    )


def _labels(labels: Mapping[str, int]) -> dict[str, int]:
    return {label: labels[label] for label in sorted(labels)}
