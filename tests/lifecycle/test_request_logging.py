from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle.request_logging import logging_route, request_logging
from bridge.serving.routes import LoggingRoute
from model_repo_sync.protos.tensorflow_serving.logging_config_pb2 import SamplingConfig
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelConfig
from model_repo_sync.protos.text import from_text


def model(logging_config: str) -> ModelConfig:
    return from_text(f'name: "m" base_path: "/m" {logging_config}', ModelConfig)


@pytest.mark.parametrize("collector", ["", 'type: "file"', 'type: "tfrecord"'])
def test_what_is_kept_is_what_is_followed(collector: str) -> None:
    config = model(
        f'logging_config {{ log_collector_config {{ {collector} filename_prefix: "/logs/m" }}'
        " sampling_config { sampling_rate: 0.25 attributes: 1 } }"
    )
    kept = json.loads(json.dumps(request_logging(config, ())))
    sampling = SamplingConfig(sampling_rate=0.25, attributes=1)
    assert logging_route(kept) == LoggingRoute("/logs/m", 0.25, sampling.SerializeToString())


@pytest.mark.parametrize(
    "logging_config",
    [
        "",
        "logging_config {}",
        'logging_config { log_collector_config { filename_prefix: "/logs/m" } }',
        "logging_config { sampling_config { sampling_rate: 0 } }",
    ],
)
def test_nothing_is_logged_without_a_rate(logging_config: str) -> None:
    assert logging_route(request_logging(model(logging_config), ())) is None


@pytest.mark.parametrize(
    ("logging_config", "code", "sentence"),
    [
        (
            'log_collector_config { type: "mock" filename_prefix: "/l" } sampling_config { sampling_rate: 1 }',
            Code.NOT_FOUND,
            "Cannot find LogCollector::Factory for type: mock",
        ),
        (
            'log_collector_config { type: "mock" }',
            Code.NOT_FOUND,
            "Cannot find LogCollector::Factory for type: mock",
        ),
        (
            'log_collector_config { filename_prefix: "/l" } sampling_config { sampling_rate: 1.5 }',
            Code.INVALID_ARGUMENT,
            "A sampling_rate of model m is 1.5; a rate lies between 0 and 1, both included.",
        ),
        (
            "sampling_config { sampling_rate: nan }",
            Code.INVALID_ARGUMENT,
            "A sampling_rate of model m is nan; a rate lies between 0 and 1, both included.",
        ),
        (
            "sampling_config { per_task_sampling_configs { sampling_rate: -1 } }",
            Code.INVALID_ARGUMENT,
            "A sampling_rate of model m is -1.0; a rate lies between 0 and 1, both included.",
        ),
        (
            "sampling_config { sampling_rate: 1 }",
            Code.INVALID_ARGUMENT,
            "Expected model m to have an absolute path as filename_prefix of its logging_config; got ''",
        ),
        (
            'log_collector_config { filename_prefix: "logs/m" } sampling_config { sampling_rate: 1 }',
            Code.INVALID_ARGUMENT,
            "Expected model m to have an absolute path as filename_prefix of its logging_config; got 'logs/m'",
        ),
        (
            'custom_logging_config { type_url: "a/b" }',
            Code.INVALID_ARGUMENT,
            "The logging_config of model m has a custom_logging_config, which nothing reads.",
        ),
    ],
)
def test_refusals(logging_config: str, code: Code, sentence: str) -> None:
    with pytest.raises(BridgeError) as caught:
        request_logging(model(f"logging_config {{ {logging_config} }}"), ())
    assert (caught.value.code, caught.value.message) == (code, sentence)


@pytest.mark.parametrize(("prefix", "accepted"), [("ok/m", True), ("ok/sub/m", True), ("m", False), ("ok/../m", False)])
def test_allowed_directories(tmp_path: Path, prefix: str, accepted: bool) -> None:
    config = model(
        f'logging_config {{ log_collector_config {{ filename_prefix: "{tmp_path}/{prefix}" }}'
        " sampling_config { sampling_rate: 1 } }"
    )
    allowed = [str(tmp_path / "ok")]
    if accepted:
        assert request_logging(config, allowed)
    else:
        with pytest.raises(BridgeError, match="lies outside --allowed_request_log_paths"):
            request_logging(config, allowed)
