"""Registered models of every type that this Triton can serve, from every place, under any id, over a real server."""

from __future__ import annotations

import functools
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import MODEL, ModelMeshClient, Refusal
from tests.support.official_client import OfficialClient, export

pytestmark = pytest.mark.integration

LOAD = {"loadNow": True, "sync": True}
DOUBLE = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * x)]) for x in inputs]
"""
DOUBLE_CONFIG = """
name: "another name"
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [-1] }
output { name: "y" data_type: TYPE_FP32 dims: [-1] }
instance_group { count: 1 kind: KIND_CPU }
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """half (3 and 00000005), double (a ready Triton model), net.onnx."""
    directory = tmp_path_factory.mktemp("models")
    export(directory / "half", 3)
    export(directory / "half", 5, "00000005")
    (directory / "double" / "00000012").mkdir(parents=True)
    (directory / "double" / "00000012" / "model.py").write_text(DOUBLE)
    (directory / "double" / "config.pbtxt").write_text(DOUBLE_CONFIG)
    (directory / "net.onnx").write_bytes(b"net")
    return directory


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def web(models: Path) -> Iterator[str]:
    """A web server of the models."""
    handler = functools.partial(_Quiet, directory=str(models))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, models: Path, web: str) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("bridge")
    (directory / "config").mkdir()
    (directory / "config" / "web").write_text(json.dumps({"type": "http", "url": web}))
    (directory / "config" / "azure").write_text(json.dumps({"type": "azure", "account_name": "a"}))
    flags = [
        f"--model_root={models}",
        f"--storage_config_dir={directory / 'config'}",
        "--modelmesh_second_copies=false",
    ]
    with BridgeServer(directory, *flags, "--triton_capacity_bytes=40000000000") as server:
        yield server


@pytest.fixture(scope="module")
def mesh(server: BridgeServer) -> Iterator[ModelMeshClient]:
    with ModelMeshClient(server.modelmesh) as mesh:
        yield mesh


def load(mesh: ModelMeshClient, id: str, type: str, path: str, key: str = "") -> Any:
    return mesh("registerModel", modelId=id, modelInfo={"type": type, "path": path, "key": key}, **LOAD)


def bias(client: OfficialClient, server: BridgeServer, name: str) -> Any:
    answer = client.predict(server.modelmesh, [0.0], name=name)
    return answer["outputs"]["y"]["values"][0] if "outputs" in answer else answer


def infer(server: BridgeServer, name: str, values: list[float]) -> Any:
    with grpcclient.InferenceServerClient(server.modelmesh) as client:
        tensor = grpcclient.InferInput("x", [len(values)], "FP32")
        tensor.set_data_from_numpy(np.array(values, np.float32))
        answer = client.infer(name, [tensor])
    return answer.get_response().model_name, answer.as_numpy("y").tolist()


IDS = [
    "a/b/c",
    "../../etc/passwd",
    "..",
    ".",
    "/",
    " ",
    "two words",
    'it\'s "quoted"',
    "$(touch PWN)",
    "`touch PWN`; touch PWN & | > PWN",
    "${HOME}\\n%00%2e%2e",
    "line\nbreak\ttab",
    "модель-模型-🦊",
    "e\u0301 and \u00e9",
    "x" * 300,
    "é" * 150,
    "A",
    "a",
    "config.pbtxt",
    "-rf",
    "a_b.c",
    "nul\0byte",
]


@pytest.mark.parametrize("id", IDS, ids=range(len(IDS)))
def test_any_id_is_served_or_refused(
    server: BridgeServer, mesh: ModelMeshClient, client: OfficialClient, models: Path, id: str
) -> None:
    info = {"type": "tensorflow", "path": "half", "key": ""}
    if "\0" in id:
        refused = mesh.refused("registerModel", modelId=id, modelInfo=info)
        assert refused.code == "INVALID_ARGUMENT"
        return
    assert MODEL(mesh("registerModel", modelId=id, modelInfo=info, **LOAD).status) == "LOADED"
    assert bias(client, server, id) == 5.0
    assert infer(server, id, [2.0]) == (id, [6.0])
    mesh("unregisterModel", modelId=id)
    assert mesh.model(id) == "NOT_FOUND"
    assert not list(server.state_dir.parent.rglob("PWN")) + list(Path.cwd().glob("PWN"))
    assert sorted(path.name for path in models.iterdir()) == ["double", "half", "net.onnx"]


def test_a_registration_never_meets_the_content_of_an_earlier_one(
    server: BridgeServer, mesh: ModelMeshClient, client: OfficialClient, models: Path
) -> None:
    for version in (1, 2, 3):
        export(models / "changing", version, "1")
        assert MODEL(load(mesh, "again", "tensorflow", "changing").status) == "LOADED"
        assert bias(client, server, "again") == float(version)
        mesh("unregisterModel", modelId="again")
        shutil.rmtree(models / "changing")


@pytest.mark.parametrize(
    ("type", "key"),
    [
        ("triton", ""),
        ("mt:triton|pv:grpc-v2", "no JSON"),
        ("rt:triton-2.x", '{"model_type": {"name": "triton", "version": "2"}, "disk_size_bytes": 1000}'),
        ("triton", '{"storage_params": {"type": "local"}}'),
        ("triton", '{"storage_key": "web"}'),
    ],
)
def test_a_ready_triton_model(
    server: BridgeServer, mesh: ModelMeshClient, client: OfficialClient, type: str, key: str
) -> None:
    status = load(mesh, "double", type, "double", key)
    assert (MODEL(status.status), list(status.errors)) == ("LOADED", [])
    assert infer(server, "double", [1.0, 2.5]) == ("double", [2.0, 5.0])
    answer = client.predict(server.modelmesh, [0.0], name="double")
    assert answer["code"] == "UNIMPLEMENTED"
    assert answer["details"] == "Model double is no SavedModel: it takes KServe V2 inference only."
    mesh("unregisterModel", modelId="double")
    with pytest.raises(InferenceServerException, match="NOT_FOUND"):
        infer(server, "double", [1.0])


def test_a_saved_model_from_a_web_server(server: BridgeServer, mesh: ModelMeshClient, client: OfficialClient) -> None:
    key = json.dumps({"storage_key": "web", "model_type": {"name": "tensorflow"}, "disk_size_bytes": 10_000})
    status = load(mesh, "from the web", "mt:tensorflow:2|pv:grpc-v2", "half", key)
    assert (MODEL(status.status), list(status.errors)) == ("LOADED", [])
    assert bias(client, server, "from the web") == 5.0
    left = [path for path in (server.state_dir / "registered").rglob("*") if path.is_file() and path.name != ".url"]
    assert left == []


REFUSED = [
    ("tensorflow", "half", '{"storage_key": "gone"}', "INVALID_ARGUMENT: Did not find storage config for key 'gone'"),
    ("tensorflow", "half", '{"storage_key": "azure"}', "Storage of type 'azure' cannot be read here"),
    ("tensorflow", "gone", '{"storage_key": "web"}', "NOT_FOUND: There is nothing at http://127.0.0.1:"),
    ("tensorflow", "../outside", '{"storage_key": "web"}', "names nothing in a store"),
    ("tensorflow", "double", "", "NOT_FOUND: There is no SavedModel in "),
    ("triton", "half", "", "NOT_FOUND: There is no config.pbtxt in "),
    ("keras", "half", "", "Models of type 'keras' cannot be served here; known types: onnx, pytorch, tensorflow"),
    ("onnx", "net.onnx", "", "onnxruntime"),
]


@pytest.mark.parametrize(("type", "path", "key", "error"), REFUSED)
def test_what_cannot_be_served(mesh: ModelMeshClient, type: str, path: str, key: str, error: str) -> None:
    """This Triton has no backend for onnx, which its own sentence tells."""
    status = load(mesh, "refused", type, path, key)
    assert MODEL(status.status) == "LOADING_FAILED"
    assert error in status.errors[0]
    mesh("unregisterModel", modelId="refused")


def test_unset(mesh: ModelMeshClient) -> None:
    refused = mesh.refused("registerModel", modelId="m", modelInfo={"path": "half"})
    assert refused == Refusal("INVALID_ARGUMENT", "Must provide non-empty model type string")
