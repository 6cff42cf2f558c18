"""Sixteen tensorflow_model_servers on one machine, each with flags of its own, as TF Serving's own tests run theirs."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import savedmodels
from tests.support.model_server import ModelServer
from tests.support.official_client import OfficialClient
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

X, Y = [1.0, 2.0, 5.0], [2.5, 3.0, 4.5]
ONE = "--model_base_path={half}"
FLAGS: Sequence[Sequence[str]] = [
    [ONE],
    ["--model_config_file={tmp}/models.config"],
    [ONE, "--grpc_socket_path={tmp}/socket"],
    [ONE, "--rest_api_port=0"],
    [ONE, "--enable_serialization_as_tensor_content"],
    [ONE, "--rest_api_enable_cors_support"],
    [ONE, "--file_system_poll_wait_seconds=0"],
    [ONE, "--tensorflow_session_parallelism=2"],
    [ONE, "--tensorflow_session_config_file={tmp}/session.config"],
    [ONE, "--enable_batching"],
    [ONE, "--enable_batching", "--batching_parameters_file={tmp}/batching.config"],
    [ONE, "--monitoring_config_file={tmp}/monitoring.config"],
    [ONE, "--grpc_channel_arguments=grpc.max_concurrent_streams=50"],
    [ONE, "--enable_grpc_healthcheck_service", "--enable_signature_method_name_check"],
    [ONE, "--num_load_threads=2", "--num_unload_threads=2", "--enable_model_warmup=false", "--unknown_flag=1"],
    [
        ONE,
        "--saved_model_tags=",
        "--mixed_precision=bfloat16",
        "--prefer_tflite_model",
        "--xla_cpu_compilation_enabled",
    ],
]
FILES = {
    "models.config": (
        'model_config_list {{ config {{ name: "default" base_path: "{half}" model_platform: "tensorflow" }} }}'
    ),
    "session.config": "intra_op_parallelism_threads: 1\nallow_soft_placement: true\n",
    "batching.config": "max_batch_size {{ value: 128 }}\nbatch_timeout_micros {{ value: 0 }}\n",
    "monitoring.config": "prometheus_config {{ enable: true }}\n",
}


@pytest.mark.timeout(400)
def test_all_become_ready_answer_and_leave_nothing_when_killed(tmp_path: Path, client: OfficialClient) -> None:
    half = tmp_path / "half"
    savedmodels.half_plus_two(half, 1)
    names = {"tmp": str(tmp_path), "half": str(half)}
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.format(**names))
    servers = [
        ModelServer(tmp_path / str(number), *(flag.format(**names) for flag in flags))
        for number, flags in enumerate(FLAGS)
    ]
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.close)
            server.launch()
        for server in servers:
            server.wait_ready(300)
        for server in servers:
            assert client.predict(server.grpc, X, name="default")["outputs"]["y"]["values"] == Y, server.flags
            if "--rest_api_port=0" not in server.flags:
                assert predict_rest(server.rest) == Y, server.flags
        for server in servers:
            server.kill()
        for server in servers:
            wait_for(lambda server=server: not server.processes(), 30, f"nothing is left of {server.flags}")  # type: ignore[misc]


def predict_rest(address: str) -> Any:
    body = json.dumps({"instances": X}).encode()
    with urllib.request.urlopen(f"http://{address}/v1/models/default:predict", body, timeout=30) as response:
        return json.load(response)["predictions"]
