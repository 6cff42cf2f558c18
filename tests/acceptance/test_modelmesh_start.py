"""What a server registers by itself when it starts, and what it still knows of before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import MODEL, ModelMeshClient
from tests.support.official_client import OfficialClient, export

pytestmark = pytest.mark.integration

LOAD = {"loadNow": True, "sync": True}
LISTED = [
    {"modelId": "one", "modelInfo": {"type": "tensorflow", "path": "m1"}},
    {"modelId": "two", "modelInfo": {"type": "tensorflow", "path": "m2"}, "vModelId": "v", "ensureLoaded": True},
]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    for version in (1, 2):
        export(tmp_path / "models" / f"m{version}", version)
    return tmp_path / "models"


def test_listed_models(tmp_path: Path, models: Path, client: OfficialClient) -> None:
    environment = {"MM_AUTO_REGISTER_MODELS": json.dumps(LISTED)}
    flags = (f"--model_root={models}", "--modelmesh_default_vmodel_owner=start")
    with (
        BridgeServer(tmp_path / "bridge", *flags, environment=environment) as server,
        ModelMeshClient(server.modelmesh) as mesh,
    ):
        assert (mesh.model("one"), mesh.model("two")) == ("NOT_LOADED", "LOADED")
        assert mesh.vmodel("v") == ("DEFINED", "two", "two")
        assert client.predict(server.grpc, [0.0], name="v")["outputs"]["y"]["values"] == [2.0]
        before = len(server.changes("model:one")), len(server.changes("vmodel:v"))
        assert server.terminate() == 0
        server.start()
        assert mesh.model("two") == "LOADED"
        assert (len(server.changes("model:one")), len(server.changes("vmodel:v"))) == before


def test_a_listed_model_that_cannot_be_loaded_fails_the_start(tmp_path: Path, models: Path) -> None:
    listed = [{"modelId": "x", "modelInfo": {"type": "tensorflow", "path": "nowhere"}, "ensureLoaded": True}]
    environment = {"MM_AUTO_REGISTER_MODELS": json.dumps(listed)}
    server = BridgeServer(tmp_path / "bridge", f"--model_root={models}", environment=environment).launch()
    try:
        assert server.wait(60) == 1
        [line] = server.log_lines("bridge serve:")
        assert "model x of MM_AUTO_REGISTER_MODELS cannot be loaded: NOT_FOUND: There is no" in line
    finally:
        server.close()


def test_type_constraints(tmp_path: Path, models: Path) -> None:
    constraints = {"tensorflow": {"required": ["gpu", "big"]}, "mt:tensorflow": {"required": ["big"]}}
    environment = {"MM_TYPE_CONSTRAINTS": json.dumps(constraints)}
    flags = (f"--model_root={models}", "--triton_labels=big,fast")
    with (
        BridgeServer(tmp_path / "bridge", *flags, environment=environment) as server,
        ModelMeshClient(server.modelmesh) as mesh,
    ):
        server.wait_for_instances()
        mesh("registerModel", modelId="a", modelInfo={"type": "tensorflow", "path": "m1"})
        status = mesh("ensureLoaded", modelId="a", sync=True)
        assert MODEL(status.status) == "LOADING_FAILED"
        assert list(status.errors) == [
            "Nowhere available to load: There are no running instances that meet the label requirements of type "
            "tensorflow: [gpu, big]"
        ]
        status = mesh("getModelStatus", modelId="a")
        assert (MODEL(status.status), list(status.errors)) == ("NOT_LOADED", [])
        loaded = mesh("registerModel", modelId="b", modelInfo={"type": "mt:tensorflow", "path": "m1"}, **LOAD)
        assert MODEL(loaded.status) == "LOADED"
