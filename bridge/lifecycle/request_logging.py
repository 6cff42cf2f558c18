"""ModelConfig.logging_config: checked, as the registry keeps it, and as the request path uses it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from google.protobuf import json_format

from bridge.errors import InvalidArgument, NotFound
from bridge.registry.records import JsonObject
from bridge.serving.routes import LoggingRoute
from model_repo_sync.protos.tensorflow_serving.logging_config_pb2 import LoggingConfig
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelConfig

COLLECTOR_TYPES = ("", "file", "tfrecord")
"""All are the one collector that there is: TFRecord files."""


def request_logging(config: ModelConfig, allowed: Collection[str]) -> JsonObject:
    """The logging_config of a model as plain JSON, empty for none. `allowed` are directories, none for anywhere.

    Raises NotFound for an unknown type of collector, InvalidArgument for what cannot be followed.
    """
    if not config.HasField("logging_config"):
        return {}
    wanted = config.logging_config
    _check_collector(config.name, wanted)
    _check_rates(config.name, wanted)
    if wanted.sampling_config.sampling_rate > 0:
        _check_prefix(config.name, wanted.log_collector_config.filename_prefix, allowed)
    plain: JsonObject = json_format.MessageToDict(wanted, preserving_proto_field_name=True)
    return plain


def logging_route(logging: JsonObject) -> LoggingRoute | None:
    """What the request path needs of the registry's JSON; None when no request is to be logged."""
    config = json_format.ParseDict(dict(logging), LoggingConfig())
    sampling = config.sampling_config
    if sampling.sampling_rate <= 0:
        return None
    return LoggingRoute(
        config.log_collector_config.filename_prefix, sampling.sampling_rate, sampling.SerializeToString()
    )


def _check_collector(model: str, wanted: LoggingConfig) -> None:
    collector = wanted.log_collector_config.type
    if collector not in COLLECTOR_TYPES:
        raise NotFound(f"Cannot find LogCollector::Factory for type: {collector}")
    if wanted.HasField("custom_logging_config"):
        raise InvalidArgument(f"The logging_config of model {model} has a custom_logging_config, which nothing reads.")


def _check_rates(model: str, wanted: LoggingConfig) -> None:
    for rate in _rates(wanted):
        if not 0 <= rate <= 1:
            raise InvalidArgument(
                f"A sampling_rate of model {model} is {rate}; a rate lies between 0 and 1, both included."
            )


def _rates(wanted: LoggingConfig) -> Iterable[float]:
    yield wanted.sampling_config.sampling_rate
    for item in wanted.sampling_config.per_task_sampling_configs:
        yield item.sampling_rate


def _check_prefix(model: str, prefix: str, allowed: Collection[str]) -> None:
    if not prefix.startswith("/") or prefix.endswith("/") or "\0" in prefix:
        raise InvalidArgument(
            f"Expected model {model} to have an absolute path as filename_prefix of its logging_config; got '{prefix}'"
        )
    directory = os.path.realpath(os.path.dirname(prefix))
    if allowed and not any(directory == root or directory.startswith(f"{root.rstrip('/')}/") for root in allowed):
        raise InvalidArgument(f"filename_prefix {prefix} of model {model} lies outside --allowed_request_log_paths")
