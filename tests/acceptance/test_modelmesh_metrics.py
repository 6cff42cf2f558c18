"""ModelMesh's metrics and TLS over real ports, by ModelMesh's environment variables."""

from __future__ import annotations

import ssl
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from bridge.telemetry.metrics_port import self_signed
from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import export
from tests.support.tritonserver import free_ports

pytestmark = pytest.mark.integration

LARGE = 500_000
"""Floats, of two million bytes."""


def page(port: int) -> dict[str, float]:
    """The values on the metrics page, by names with labels."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=context) as response:
        lines = response.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def infer(client: grpcclient.InferenceServerClient, name: str, count: int) -> None:
    tensor = grpcclient.InferInput("x", [count], "FP32")
    tensor.set_data_from_numpy(np.zeros(count, np.float32))
    client.infer(name, [tensor])


def test_metrics(tmp_path: Path) -> None:
    [port] = free_ports(1)
    export(tmp_path / "models", 1, "m1")
    variables = {
        "MM_METRICS": f"prometheus:port={port};per_model_metrics=true",
        "MM_INFO_METRICS": "bridge:metric_name=deployment_info:relabel;slot=ga",
    }
    flags = (f"--model_root={tmp_path}/models", "--modelmesh_second_copies=false")
    with (
        BridgeServer(tmp_path / "bridge", *flags, environment=variables) as server,
        ModelMeshClient(server.modelmesh) as mesh,
        grpcclient.InferenceServerClient(server.modelmesh) as client,
    ):
        info = {"type": "tensorflow", "path": "m1"}
        mesh("registerModel", modelId="myModel", modelInfo=info)
        for count in (*[1] * 30, *[LARGE] * 10):
            infer(client, "myModel", count)
        with pytest.raises(InferenceServerException):
            infer(client, "unknown", 1)
        found = page(port)
        ids = 'modelId="myModel",vModelId=""'
        request = f'code="OK",method="ModelInfer",{ids}'
        by_labels = {
            frozenset(name.partition("{")[2].rstrip("}").split(",")) | {name.partition("{")[0]}: value
            for name, value in found.items()
        }

        def value(name: str, labels: str = "") -> float:
            return by_labels[frozenset(labels.split(",")) | {name}]

        assert value("modelmesh_api_request_milliseconds_bucket", f'{request},le="300000.0"') == 40
        assert value("modelmesh_request_size_bytes_bucket", f'{request},le="128.0"') == 30
        assert value("modelmesh_request_size_bytes_bucket", f'{request},le="2097152.0"') == 40
        assert value("modelmesh_response_size_bytes_count", request) == 40
        unknown = 'code="NOT_FOUND",method="ModelInfer",modelId="",vModelId=""'
        assert value("modelmesh_api_request_milliseconds_count", unknown) == 1
        assert value("modelmesh_model_sizing_milliseconds_bucket", f'{ids},le="60000.0"') == 1
        assert value("modelmesh_loaded_model_size_bytes_count", ids) == 1
        assert value("modelmesh_loadmodel_milliseconds_count", ids) == 1
        assert value("modelmesh_cache_miss_milliseconds_count", ids) == 1
        assert value("modelmesh_instance_models_total") == 1
        assert value("modelmesh_models_loaded_total") == 1
        assert value("modelmesh_models_managed_total") == 1
        assert value("modelmesh_instance_used_bytes") > 0
        assert value("deployment_info:relabel", 'slot="ga"') == 1
        assert b"modelmesh_instance_models_total 1.0" in server.request("GET", "/metrics", to=server.admin).body


def test_tls(tmp_path: Path) -> None:
    tls = self_signed()
    (tmp_path / "key.pem").write_bytes(tls.key)
    (tmp_path / "chain.pem").write_bytes(tls.chain)
    variables = {
        "MM_TLS_KEY_CERT_PATH": f"{tmp_path}/chain.pem",
        "MM_TLS_PRIVATE_KEY_PATH": f"{tmp_path}/key.pem",
    }
    with BridgeServer(tmp_path / "bridge", environment=variables) as server:
        port = server.ports["modelmesh_port"]
        credentials = grpc.ssl_channel_credentials(tls.chain)
        with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
            call: Any = channel.unary_unary("/mmesh.ModelMesh/getModelStatus")
            assert call(b"\x0a\x01m", timeout=10) == b""
        with ModelMeshClient(server.modelmesh) as mesh, pytest.raises(grpc.RpcError) as caught:
            mesh("getModelStatus", modelId="m")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
