"""How models run, from the flags of batching, warmup, tags and sessions, or from a platform configuration instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from bridge.errors import InvalidArgument
from bridge.settings import Settings
from bridge.tfserving import text_files
from model_repo_sync.protos.tensorflow import config_pb2, rewriter_config_pb2
from model_repo_sync.protos.tensorflow_serving import (
    platform_config_pb2,
    saved_model_bundle_source_adapter_pb2,
    session_bundle_config_pb2,
)

PLATFORM = "tensorflow"
BATCH_THREADS = "model_server_batch_threads"
BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class SessionBundle:
    """TF Serving's SessionBundleConfig with the defaults of its server.

    `batching` is None where requests are not merged; with `per_model_batching` it serves only models that have their
    own parameters. `platforms` are those that a model may ask for. `warnings` are sentences about what is left out.
    """

    session_config: config_pb2.ConfigProto
    batching: session_bundle_config_pb2.BatchingParameters | None
    per_model_batching: bool
    tags: tuple[str, ...]
    warmup: bool
    warmup_iterations: int
    platforms: frozenset[str] = frozenset({PLATFORM})
    warnings: tuple[str, ...] = ()


def session_bundle(settings: Settings) -> SessionBundle:
    """Read the files that `settings` name.

    Raises BridgeError with TF Serving's sentences: a file cannot be read or parsed, or settings exclude each other.
    """
    if settings.platform_config_file:
        return _from_platform_config(settings.platform_config_file)
    batching = _batching(settings)
    session_config = _session_config(settings)
    return SessionBundle(
        session_config=session_config,
        batching=batching,
        per_model_batching=settings.enable_batching and settings.enable_per_model_batching_parameters,
        tags=_tags(settings.saved_model_tags.split(",")),
        warmup=settings.enable_model_warmup,
        warmup_iterations=max(1, settings.num_request_iterations_for_warmup),
        warnings=_set_mixed_precision(session_config, settings.mixed_precision),
    )


def _from_platform_config(path: str) -> SessionBundle:
    """In a platform configuration what is unset is off, so warmup too, whatever the flags say."""
    platforms = text_files.read(path, platform_config_pb2.PlatformConfigMap).platform_configs
    adapter = saved_model_bundle_source_adapter_pb2.SavedModelBundleSourceAdapterConfig()
    served = frozenset({PLATFORM}) & platforms.keys()
    if served and not _unpack(platforms[PLATFORM], adapter):
        raise InvalidArgument(
            f"Platform configuration '{path}' gives platform {PLATFORM} no {adapter.DESCRIPTOR.full_name}, "
            "the one source adapter that this server has."
        )
    foreign = [
        f"Platform {name} of {path} is not served; {PLATFORM} is the only one." for name in platforms.keys() - served
    ]
    config = adapter.legacy_config
    session_config = config_pb2.ConfigProto()
    session_config.CopyFrom(config.session_config)
    return SessionBundle(
        session_config=session_config,
        batching=config.batching_parameters if config.HasField("batching_parameters") else None,
        per_model_batching=config.enable_per_model_batching_params,
        tags=_tags(config.saved_model_tags),
        warmup=config.enable_model_warmup,
        warmup_iterations=max(1, config.model_warmup_options.num_request_iterations.value),
        platforms=served,
        warnings=(*sorted(foreign), *_set_mixed_precision(session_config, config.mixed_precision)),
    )


def _unpack(
    platform: platform_config_pb2.PlatformConfig,
    adapter: saved_model_bundle_source_adapter_pb2.SavedModelBundleSourceAdapterConfig,
) -> bool:
    try:
        return platform.source_adapter_config.Unpack(adapter)
    except DecodeError:
        return False


def _batching(settings: Settings) -> session_bundle_config_pb2.BatchingParameters | None:
    """A file replaces the default message as a whole, the name of its thread pool included."""
    if not settings.enable_batching:
        if settings.batching_parameters_file:
            raise InvalidArgument(
                "server_options.batching_parameters_file is set without setting server_options.enable_batching to true."
            )
        return None
    if settings.batching_parameters_file:
        return text_files.read(settings.batching_parameters_file, session_bundle_config_pb2.BatchingParameters)
    parameters = session_bundle_config_pb2.BatchingParameters()
    parameters.thread_pool_name.value = BATCH_THREADS
    return parameters


def _session_config(settings: Settings) -> config_pb2.ConfigProto:
    """The file's ConfigProto, with what flags give on top."""
    config = config_pb2.ConfigProto()
    if settings.tensorflow_session_config_file:
        config = text_files.read(settings.tensorflow_session_config_file, config_pb2.ConfigProto)
    both = settings.tensorflow_session_parallelism
    intra, inter = settings.tensorflow_intra_op_parallelism, settings.tensorflow_inter_op_parallelism
    if intra > 0 and inter > 0 and both > 0:
        raise InvalidArgument(
            "Either configure server_options.tensorflow_session_parallelism or "
            "(server_options.tensorflow_intra_op_parallelism, server_options.tensorflow_inter_op_parallelism) "
            "separately. You cannot configure all."
        )
    if both > 0:
        intra = inter = both
    if intra > 0:
        config.intra_op_parallelism_threads = intra
    if inter > 0:
        config.inter_op_parallelism_threads = inter
    if settings.per_process_gpu_memory_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = settings.per_process_gpu_memory_fraction
    return config


def _set_mixed_precision(config: config_pb2.ConfigProto, precision: str) -> tuple[str, ...]:
    """Put `precision` into `config`; a sentence where it is not known."""
    if precision == BFLOAT16:
        rewriter = config.graph_options.rewrite_options
        rewriter.auto_mixed_precision_onednn_bfloat16 = rewriter_config_pb2.RewriterConfig.ON
        return ()
    return (f"Mixed precision {precision} is not known; only {BFLOAT16} is.",) if precision else ()


def _tags(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(tag for tag in tags if tag) or ("serve",)
