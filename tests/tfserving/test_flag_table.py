from __future__ import annotations

import os

import pytest

from bridge.errors import InvalidArgument
from bridge.settings import SETTINGS, Settings
from bridge.tfserving import flag_table
from bridge.tfserving.flag_table import FLAGS, STOCK
from bridge.tfserving.flags import Kind, Value, parse

CPUS = len(os.sched_getaffinity(0))

STOCK_FLAGS = [
    ("port", "int32", 8500),
    ("grpc_socket_path", "string", ""),
    ("rest_api_port", "int32", 0),
    ("rest_api_num_threads", "int32", 4 * CPUS),
    ("rest_api_timeout_in_ms", "int32", 30000),
    ("rest_api_enable_cors_support", "bool", False),
    ("enable_batching", "bool", False),
    ("allow_version_labels_for_unavailable_models", "bool", False),
    ("batching_parameters_file", "string", ""),
    ("enable_per_model_batching_parameters", "bool", False),
    ("model_config_file", "string", ""),
    ("model_config_file_poll_wait_seconds", "int32", 0),
    ("model_name", "string", "default"),
    ("model_base_path", "string", ""),
    ("num_load_threads", "int32", 0),
    ("num_unload_threads", "int32", 0),
    ("max_num_load_retries", "int32", 5),
    ("load_retry_interval_micros", "int64", 60000000),
    ("file_system_poll_wait_seconds", "int32", 1),
    ("flush_filesystem_caches", "bool", True),
    ("tensorflow_session_parallelism", "int64", 0),
    ("tensorflow_session_config_file", "string", ""),
    ("tensorflow_intra_op_parallelism", "int64", 0),
    ("tensorflow_inter_op_parallelism", "int64", 0),
    ("use_alts_credentials", "bool", False),
    ("ssl_config_file", "string", ""),
    ("platform_config_file", "string", ""),
    ("per_process_gpu_memory_fraction", "float", 0.0),
    ("saved_model_tags", "string", "serve"),
    ("grpc_channel_arguments", "string", ""),
    ("grpc_max_threads", "int32", 4 * CPUS),
    ("enable_model_warmup", "bool", True),
    ("num_request_iterations_for_warmup", "int32", 0),
    ("version", "bool", False),
    ("monitoring_config_file", "string", ""),
    ("remove_unused_fields_from_bundle_metagraph", "bool", True),
    ("prefer_tflite_model", "bool", False),
    ("num_tflite_pools", "int32", CPUS),
    ("num_tflite_interpreters_per_pool", "int32", 1),
    ("enable_signature_method_name_check", "bool", False),
    ("xla_cpu_compilation_enabled", "bool", False),
    ("xla_gpu_compilation_enabled", "bool", False),
    ("enable_profiler", "bool", True),
    ("thread_pool_factory_config_file", "string", ""),
    ("mixed_precision", "string", ""),
    ("skip_initialize_tpu", "bool", False),
    ("enable_grpc_healthcheck_service", "bool", False),
    ("enable_serialization_as_tensor_content", "bool", False),
]
"""Name, type and default of each flag of the stock binary, in its order."""


def test_stock_flags_in_order_with_their_types_and_defaults() -> None:
    assert [(flag.name, flag.kind.value, flag.default) for flag in STOCK] == STOCK_FLAGS


def test_a_stock_flag_is_a_setting_or_says_why_it_has_no_effect() -> None:
    mapped = {setting.name for setting in SETTINGS} | {"num_load_threads", "version"}
    for flag in STOCK:
        assert (flag.name in mapped) != bool(flag.no_effect), flag.name


def test_every_setting_is_a_flag() -> None:
    assert {setting.name for setting in SETTINGS} <= {flag.name for flag in FLAGS}


def test_no_boolean_shadows_a_flag_after_it() -> None:
    for position, flag in enumerate(FLAGS):
        if flag.kind is Kind.BOOL:
            assert not [later.name for later in FLAGS[position + 1 :] if later.name.startswith(flag.name)]


def test_defaults_are_those_of_the_stock_binary() -> None:
    settings = flag_table.settings({})
    assert settings == Settings(
        rest_api_port=0,
        rest_api_num_threads=4 * CPUS,
        admin_port=0,
        modelmesh_port=0,
        servable_versions_always_present=False,
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--port=1", "--rest_api_port=2", "--admin_port=3"], {"port": 1, "rest_api_port": 2, "admin_port": 3}),
        (["--num_load_threads=7"], {"load_concurrency": 7}),
        (["--num_load_threads=0", "--load_concurrency=3"], {"load_concurrency": 3}),
        (["--max_num_load_retries=-1"], {"max_num_load_retries": 2**32 - 1}),
        (["--load_retry_interval_micros=-1"], {"load_retry_interval_micros": -1}),
        (["--servable_versions_always_present"], {"servable_versions_always_present": True}),
        (["--model_name=a", "--model_name=b"], {"model_name": "b"}),
        (["--per_process_gpu_memory_fraction=0.5"], {"per_process_gpu_memory_fraction": 0.5}),
        (
            ["--triton_url=a:1", "--triton_url=b:1", "--triton_repository=/r"],
            {"triton_url": ("a:1", "b:1"), "triton_repository": ("/r",)},
        ),
        (["--log_level=debug"], {"log_level": "debug"}),
    ],
)
def test_flags_become_settings(words: list[str], expected: dict[str, Value]) -> None:
    settings = flag_table.settings(parse(words, FLAGS).values)
    assert {name: getattr(settings, name) for name in expected} == expected


def test_settings_that_cannot_work_together_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="--triton_repository"):
        flag_table.settings({"triton_url": ("a:1",)})


def test_environment() -> None:
    line = flag_table.from_environment(
        {
            "BRIDGE_PORT": "9000",
            "BRIDGE_ENABLE_BATCHING": "true",
            "BRIDGE_TRITON_URL": "a:1 b:2",
            "BRIDGE_MODEL_NAME": "",
            "BRIDGE_UNKNOWN": "x",
            "PORT": "1",
        }
    )
    assert line.values == {"port": 9000, "enable_batching": True, "triton_url": ("a:1", "b:2")}
    assert not line.faults


@pytest.mark.parametrize(
    ("variable", "text"), [("BRIDGE_PORT", "x"), ("BRIDGE_ENABLE_BATCHING", "1"), ("BRIDGE_LOG_LEVEL", "loud")]
)
def test_a_variable_that_is_no_value(variable: str, text: str) -> None:
    line = flag_table.from_environment({variable: text})
    assert line.faults == (f"Couldn't interpret value {text} for {variable}.",)


def test_flags_without_effect_are_named_only_where_they_are_given() -> None:
    given = parse(["--enable_profiler", "--port=1", "--grpc_max_threads=4"], FLAGS).values
    assert set(flag_table.without_effect(given)) == {"enable_profiler", "grpc_max_threads"}
