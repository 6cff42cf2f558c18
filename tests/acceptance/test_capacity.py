"""Memory that is shared out: registered models by measured size, configured servables before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.errors import Code
from tests.support import model_config
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

END = 50

MODEL_BYTES = 90_000_000
"""What models are taken for before they are measured: more than the 60 to 64 MB of a small model's runner."""

ROOM_FOR_THREE = 250_000_000
"""225 MB without the reserve: two measured models and an unknown one, or three measured ones, but not four."""


@contextmanager
def bridge(directory: Path, capacity: int, *flags: str) -> Iterator[tuple[BridgeServer, ModelMeshClient]]:
    settings = [
        f"--triton_capacity_bytes={capacity}",
        f"--modelmesh_default_model_bytes={MODEL_BYTES}",
        f"--model_root={directory}",
        "--modelmesh_second_copies=false",
        "--load_concurrency=1",
    ]
    with BridgeServer(directory / "bridge", *settings, *flags) as server, ModelMeshClient(server.modelmesh) as mesh:
        yield server, mesh


def register(mesh: ModelMeshClient, *names: str) -> None:
    for name in names:
        mesh("registerModel", modelId=name, modelInfo={"type": "tensorflow", "path": "m"})


def loaded(mesh: ModelMeshClient, names: Iterable[str]) -> set[str]:
    return {name for name in names if mesh.model(name) == "LOADED"}


def test_the_least_recently_used_model_makes_room(tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "m", 1)
    with bridge(tmp_path, ROOM_FOR_THREE) as (server, mesh):
        names = ["first", "second", "third", "fourth", "fifth"]
        register(mesh, *names)
        for name in names:
            assert client.predict(server.modelmesh, [2.0], name=name)["outputs"]["y"]["values"] == [2.0]
        assert loaded(mesh, names) == {"third", "fourth", "fifth"}
        wait_for(lambda: len(server.stubs) == 3, 20.0, "evicted models have no runner")
        for name in ("third", "first"):
            assert client.predict(server.modelmesh, [4.0], name=name)["outputs"]["y"]["values"] == [3.0]
        assert loaded(mesh, names) == {"third", "fifth", "first"}


def test_configured_servables_come_before_registered_models(tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "m", 1)
    served = model_config.write(tmp_path / "models.config", Entry("pinned", tmp_path / "m"))
    config = f"--model_config_file={served}"
    with bridge(tmp_path, ROOM_FOR_THREE, config, "--model_config_file_poll_wait_seconds=1") as (server, mesh):
        register(mesh, "a", "b", "c")
        for name in ("a", "b"):
            assert mesh.model(name) == "NOT_LOADED"
            client.predict(server.modelmesh, [2.0], name=name)
        pinned = [Entry("pinned", tmp_path / "m"), Entry("second", tmp_path / "m")]
        model_config.write(served, *pinned)
        server.wait_for_states("second", {1: "AVAILABLE"})
        assert mesh.model("a") == "NOT_LOADED"
        client.predict(server.modelmesh, [2.0], name="c")
        assert server.states("pinned") == server.states("second") == {1: "AVAILABLE"}
        assert len(server.stubs) <= 4


def test_a_configured_servable_without_room_ends_in_an_error(tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "m", 1)
    served = model_config.write(tmp_path / "models.config", *[Entry(f"m{n}", tmp_path / "m") for n in range(4)])
    with bridge(tmp_path, 2 * MODEL_BYTES, f"--model_config_file={served}") as (server, _):
        states = {name: server.states(name)[1] for name in ("m0", "m1", "m2", "m3")}
        refused = [name for name, state in states.items() if state == "END"]
        assert refused
        assert "AVAILABLE" in states.values()
        answer = client.ask(server.grpc, "status", spec={"name": refused[0]})
        sentence = f"Insufficient resources to load servable {{name: {refused[0]} version: 1}}"
        assert answer == {"rows": [[1, END, Code.RESOURCE_EXHAUSTED, sentence]]}
