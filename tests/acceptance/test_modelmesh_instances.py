"""Registered models on two Tritons of which one is killed and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import triton_flags
from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

RECOVERY_SECONDS = 10.0


class Fleet:
    """Two Tritons, each with a repository of its own."""

    def __init__(self, directory: Path) -> None:
        self._backends = backend_directory(directory / "backends")
        self._repositories = [directory / "one", directory / "two"]
        self.tritons = [TritonServer.start(self._backends, repository) for repository in self._repositories]
        self.names = [f"127.0.0.1:{triton.grpc_port}" for triton in self.tritons]

    def flags(self) -> list[str]:
        pairs = zip(self.tritons, self._repositories, strict=True)
        return [flag for triton, repository in pairs for flag in triton_flags(triton, repository)]

    def kill(self, number: int) -> None:
        self.tritons[number].process.kill()
        self.tritons[number].process.wait(10)

    def restart(self, number: int) -> None:
        """Start a killed one where it was."""
        killed = self.tritons[number]
        killed.stop()
        ports = (killed.grpc_port, killed.http_port)
        self.tritons[number] = TritonServer.start(self._backends, self._repositories[number], ports=ports)

    def close(self) -> None:
        for triton in self.tritons:
            with triton:
                triton.process.kill()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()


@pytest.fixture
def server(tmp_path: Path, fleet: Fleet) -> Iterator[BridgeServer]:
    export(tmp_path / "models" / "m1", 1)
    flags = [*fleet.flags(), f"--model_root={tmp_path / 'models'}", "--modelmesh_second_copies=false"]
    with BridgeServer(tmp_path / "bridge", *flags, "--triton_capacity_bytes=4000000000") as server:
        server.wait_for_instances()
        yield server


def test_a_killed_triton(server: BridgeServer, fleet: Fleet, client: OfficialClient) -> None:
    with ModelMeshClient(server.modelmesh) as mesh:
        homes = {id: _home(mesh, id) for id in ("a", "b", "c", "d")}
        assert set(homes.values()) == set(fleet.names), "spread over both"
        lost = next(id for id, home in homes.items() if home == fleet.names[0])
        kept = next(id for id, home in homes.items() if home == fleet.names[1])
        with client.loop(server.modelmesh, name=lost) as moved, client.loop(server.modelmesh, name=kept) as stayed:
            fleet.kill(0)
            moved.wait_for_answers(20, RECOVERY_SECONDS)
            stayed.wait_for_answers(20)
            assert _locations(mesh, lost) == [fleet.names[1]]
            fleet.restart(0)
            wait_for(lambda: _state(server, fleet.names[0]) == "up", 20, "the instance is back")
            assert _home(mesh, "e") == fleet.names[0], "the emptier one"
            stayed.wait_for_answers(20)
        assert stayed.clean, stayed.tally
        assert not moved.tally["wrong"]
        assert set(moved.tally["errors"]) <= {"UNAVAILABLE"}, moved.tally
        assert sum(moved.tally["errors"].values()) <= 1, "only what was in flight"
        assert client.predict(server.modelmesh, [0.0], name="e")["outputs"]["y"]["values"] == [1.0]


def test_what_a_killed_bridge_left_serves_on(server: BridgeServer, fleet: Fleet, client: OfficialClient) -> None:
    with ModelMeshClient(server.modelmesh) as mesh:
        homes = {id: _home(mesh, id) for id in ("a", "b")}
    loads = [_loads(triton) for triton in fleet.tritons]
    assert sum(loads) == 2
    server.kill()
    assert sum(len(_ready(triton)) for triton in fleet.tritons) == 2
    server.start()
    server.wait_for_instances()
    with ModelMeshClient(server.modelmesh) as mesh:
        wait_for(lambda: {mesh.model(id) for id in homes} == {"LOADED"}, 20, "both are back")
        assert all(_locations(mesh, id) == [home] for id, home in homes.items())
        for id in homes:
            assert client.predict(server.modelmesh, [0.0], name=id)["outputs"]["y"]["values"] == [1.0]
        assert [_loads(triton) for triton in fleet.tritons] == loads, "they were never taken off"
        mesh("unregisterModel", modelId="a")
        wait_for(lambda: sum(len(_ready(triton)) for triton in fleet.tritons) == 1, 20, "one is left")


def _home(mesh: ModelMeshClient, id: str) -> str:
    """Where a model is loaded, by itself."""
    info = {"type": "tensorflow", "path": "m1"}
    mesh("registerModel", modelId=id, modelInfo=info, loadNow=True, sync=True)
    [location] = _locations(mesh, id)
    return location


def _locations(mesh: ModelMeshClient, id: str) -> list[str]:
    return [copy.location for copy in mesh("getModelStatus", modelId=id).modelCopyInfos]


def _state(server: BridgeServer, instance: str) -> str:
    instances = server.get_json("/api/v1/instances")["instances"]
    return next(str(item["state"]) for item in instances if item["name"] == instance)


def _ready(triton: TritonServer) -> list[str]:
    """The registered models that a Triton has loaded."""
    index = triton.client().get_model_repository_index().models
    return [model.name for model in index if model.state == "READY" and model.name.startswith("mm.")]


def _loads(triton: TritonServer) -> int:
    """How many registered models were loaded there so far."""
    return triton.log.read_text().count("successfully loaded 'mm.")
