"""Every flag of tensorflow_model_server, and what each means for this server.

The 48 flags of the stock binary come first and in its order, then the bridge's own settings in the same spelling.
`settings` is the one place where flags become Settings.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from bridge.settings import SETTINGS, Setting, Settings, build
from bridge.tfserving.flags import CommandLine, Flag, FlagValueError, Kind, Value, read_value

_SETTINGS = {setting.name: setting for setting in SETTINGS}
_KINDS = {bool: Kind.BOOL, int: Kind.INT64, float: Kind.FLOAT, str: Kind.STRING, tuple: Kind.STRING}
_UINT32 = 2**32

_CPUS = len(os.sched_getaffinity(0))

DEFAULTS: Mapping[str, Any] = {
    "rest_api_port": 0,
    "rest_api_num_threads": 4 * _CPUS,
    "admin_port": 0,
    "modelmesh_port": 0,
    "servable_versions_always_present": False,
}
"""Where this command's default is not that of `bridge serve`."""


def _flag(name: str, kind: Kind) -> Flag:
    """A flag that is a setting of the same name."""
    setting = _SETTINGS[name]
    return Flag(name, kind, DEFAULTS.get(name, setting.default), setting.help)


def _idle(name: str, kind: Kind, default: Value, help_text: str, why: str) -> Flag:
    """A flag that is accepted without an effect."""
    return Flag(name, kind, default, f"{help_text}; no effect here: {why}", no_effect=why)


def _stock() -> tuple[Flag, ...]:
    i32, i64, real, truth, text = Kind.INT32, Kind.INT64, Kind.FLOAT, Kind.BOOL, Kind.STRING
    no_lite = "the runner has no TensorFlow Lite, so SavedModels are served"
    own_xla = "the runner's TensorFlow compiles what a model asks to have compiled, without a switch"
    return (
        _flag("port", i32),
        _flag("grpc_socket_path", text),
        _flag("rest_api_port", i32),
        _flag("rest_api_num_threads", i32),
        _flag("rest_api_timeout_in_ms", i32),
        _flag("rest_api_enable_cors_support", truth),
        _flag("enable_batching", truth),
        _flag("allow_version_labels_for_unavailable_models", truth),
        _flag("batching_parameters_file", text),
        _flag("enable_per_model_batching_parameters", truth),
        _flag("model_config_file", text),
        _flag("model_config_file_poll_wait_seconds", i32),
        _flag("model_name", text),
        _flag("model_base_path", text),
        Flag("num_load_threads", i32, 0, "loads in flight at a time on one Triton; 0 means --load_concurrency"),
        _idle("num_unload_threads", i32, 0, "threads that unload", "unloads never wait for one another"),
        _flag("max_num_load_retries", i32),
        _flag("load_retry_interval_micros", i64),
        _flag("file_system_poll_wait_seconds", i32),
        _idle(
            "flush_filesystem_caches",
            truth,
            True,
            "drop file caches after the first loads",
            "the bridge holds no model files, and the kernel frees its own cache",
        ),
        _flag("tensorflow_session_parallelism", i64),
        _flag("tensorflow_session_config_file", text),
        _flag("tensorflow_intra_op_parallelism", i64),
        _flag("tensorflow_inter_op_parallelism", i64),
        _flag("use_alts_credentials", truth),
        _flag("ssl_config_file", text),
        _flag("platform_config_file", text),
        _flag("per_process_gpu_memory_fraction", real),
        _flag("saved_model_tags", text),
        _flag("grpc_channel_arguments", text),
        _idle(
            "grpc_max_threads",
            i32,
            4 * _CPUS,
            "threads of the gRPC server",
            "an event loop serves gRPC; --runner_queue_size bounds what may wait",
        ),
        _flag("enable_model_warmup", truth),
        _flag("num_request_iterations_for_warmup", i32),
        Flag("version", truth, False, "print the versions and exit"),
        _flag("monitoring_config_file", text),
        _idle(
            "remove_unused_fields_from_bundle_metagraph",
            truth,
            True,
            "keep only what serving needs of a MetaGraph",
            "only signatures are kept",
        ),
        _idle("prefer_tflite_model", truth, False, "serve model.tflite where there is one", no_lite),
        _idle("num_tflite_pools", i32, _CPUS, "pools of TensorFlow Lite interpreters", no_lite),
        _idle("num_tflite_interpreters_per_pool", i32, 1, "TensorFlow Lite interpreters in a pool", no_lite),
        _flag("enable_signature_method_name_check", truth),
        _idle("xla_cpu_compilation_enabled", truth, False, "let XLA compile for CPUs", own_xla),
        _idle("xla_gpu_compilation_enabled", truth, False, "let XLA compile for GPUs", own_xla),
        _idle(
            "enable_profiler",
            truth,
            True,
            "serve tensorflow.ProfilerService",
            "that service profiles a TensorFlow in the server's own process; it answers UNIMPLEMENTED",
        ),
        _idle(
            "thread_pool_factory_config_file",
            text,
            "",
            "text-format ThreadPoolFactoryConfig",
            "the file is checked, but TensorFlow's own thread pools run the models",
        ),
        _flag("mixed_precision", text),
        _idle("skip_initialize_tpu", truth, False, "leave TPUs alone", "TPUs are not used"),
        _flag("enable_grpc_healthcheck_service", truth),
        _flag("enable_serialization_as_tensor_content", truth),
    )


def _own(setting: Setting) -> Flag:
    return Flag(
        setting.name,
        _KINDS[type(setting.default)],
        DEFAULTS.get(setting.name, setting.default),
        setting.help,
        repeats=setting.repeats,
        choices=setting.choices,
    )


STOCK: tuple[Flag, ...] = _stock()
"""The flags of the stock binary."""

FLAGS: tuple[Flag, ...] = (
    *STOCK,
    *(_own(setting) for setting in SETTINGS if all(setting.name != flag.name for flag in STOCK)),
)
"""All flags of this command."""


def from_environment(environment: Mapping[str, str]) -> CommandLine:
    """What BRIDGE_… variables say; a variable that is empty says nothing. Flags go before them."""
    values: dict[str, Value] = {}
    faults: list[str] = []
    for flag in FLAGS:
        setting = _SETTINGS.get(flag.name)
        text = environment.get(setting.variable, "") if setting else ""
        if setting is None or not text:
            continue
        try:
            values[flag.name] = tuple(text.split()) if flag.repeats else read_value(flag, _spelled(flag, text))
        except FlagValueError:
            faults.append(f"Couldn't interpret value {text} for {setting.variable}.")
    return CommandLine(values, faults=tuple(faults))


def settings(given: Mapping[str, Value]) -> Settings:
    """The settings that the given values and this command's defaults make. Raises InvalidArgument."""
    names = {field.name for field in dataclasses.fields(Settings)}
    values: dict[str, Any] = {**DEFAULTS, **{name: value for name, value in given.items() if name in names}}
    if int(str(given.get("num_load_threads", 0))) > 0:
        values["load_concurrency"] = given["num_load_threads"]
    if values.get("max_num_load_retries", 0) < 0:
        # The stock binary keeps this number unsigned.
        values["max_num_load_retries"] += _UINT32
    return build(values)


def without_effect(given: Mapping[str, Value]) -> dict[str, str]:
    """Why a flag that was given has no effect, by its name."""
    return {flag.name: flag.no_effect for flag in STOCK if flag.no_effect and flag.name in given}


def _spelled(flag: Flag, text: str) -> str:
    """A variable's text as the flag's tail: booleans are told by what follows their name."""
    return f"={text}" if flag.kind is Kind.BOOL else text
