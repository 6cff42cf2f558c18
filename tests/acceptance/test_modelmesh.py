"""ModelMesh over a real server: models, vmodels, their statuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import MODEL, VMODEL, ModelMeshClient
from tests.support.official_client import OfficialClient, export

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("modelmesh")
    for version in (1, 2, 3):
        export(directory / "models" / f"m{version}", version)
    with BridgeServer(directory / "bridge", f"--model_root={directory / 'models'}") as server:
        yield server


@pytest.fixture(scope="module")
def mesh(server: BridgeServer) -> Iterator[ModelMeshClient]:
    with ModelMeshClient(server.modelmesh) as client:
        yield client


def test_slice(server: BridgeServer, mesh: ModelMeshClient, client: OfficialClient) -> None:
    info = {"type": "tensorflow", "path": "m1"}
    answer = mesh("registerModel", modelId="a", modelInfo=info)
    assert MODEL(answer.status) == "NOT_LOADED"
    assert client.predict(server.modelmesh, [1.0], name="a")["outputs"]["y"]["values"] == [1.5]
    assert mesh.model("a") == "LOADED"
    answer = mesh("setVModel", vModelId="v", targetModelId="a")
    assert VMODEL(answer.status) == "DEFINED"
    answer = mesh(
        "setVModel", vModelId="v", targetModelId="b", modelInfo={"type": "tensorflow", "path": "m2"}, sync=True
    )
    assert VMODEL(answer.status) == "DEFINED", answer
    assert client.predict(server.modelmesh, [1.0], name="v")["outputs"]["y"]["values"] == [2.5]
    answer = mesh(
        "setVModel", vModelId="v", targetModelId="c", modelInfo={"type": "tensorflow", "path": "none"}, sync=True
    )
    assert VMODEL(answer.status) == "TRANSITION_FAILED", answer
    print(answer)
    for event in server.events():
        print(event["subject"], event["action"], event["after"])
