"""A canary over vmodels: a good target, a broken one and the way back, under clients that never pause."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import triton_flags
from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import VMODEL, ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BridgeServer]:
    backends = backend_directory(tmp_path / "backends")
    for version in (1, 2):
        export(tmp_path / "models" / f"m{version}", version)
    broken = tmp_path / "models" / "m3" / "3"
    broken.mkdir(parents=True)
    (broken / "saved_model.pb").write_bytes(b"no SavedModel")
    one, two = tmp_path / "one", tmp_path / "two"
    with TritonServer.start(backends, one) as first, TritonServer.start(backends, two) as second:
        flags = [f"--model_root={tmp_path / 'models'}", *triton_flags(first, one), *triton_flags(second, two)]
        with BridgeServer(tmp_path / "bridge", *flags) as server:
            yield server
        first.process.kill()
        second.process.kill()


def _info(version: int) -> dict[str, str]:
    return {"type": "tensorflow", "path": f"m{version}"}


def test_a_canary(server: BridgeServer, client: OfficialClient) -> None:
    wanted = {"vModelId": "v", "autoDeleteTargetModel": True, "sync": True}
    with ModelMeshClient(server.modelmesh) as mesh:
        mesh("registerModel", modelId="v1", modelInfo=_info(1), loadNow=True, sync=True)
        mesh("setVModel", vModelId="v", targetModelId="v1")
        with client.loop(server.modelmesh, name="v") as inner, client.loop(server.grpc, name="v") as outer:
            moved = mesh("setVModel", **wanted, targetModelId="v2", modelInfo=_info(2))
            assert (VMODEL(moved.status), moved.activeModelId) == ("DEFINED", "v2")
            inner.wait_for_version(2)
            outer.wait_for_version(2)
            broken = mesh("setVModel", **wanted, targetModelId="v3", modelInfo=_info(3))
            assert (VMODEL(broken.status), broken.activeModelId) == ("TRANSITION_FAILED", "v2")
            inner.wait_for_answers(20)
            back = mesh("setVModel", vModelId="v", targetModelId="v1", sync=True)
            assert (VMODEL(back.status), back.activeModelId) == ("DEFINED", "v1")
            inner.wait_for_version(1)
            outer.wait_for_version(1)
            gone = wait_for(lambda: mesh.model("v2") == mesh.model("v3") == "NOT_FOUND", 10, "v2 and v3 are deleted")
            assert gone
    for loop in (inner, outer):
        assert loop.clean, loop.tally
        assert loop.tally["versions"] == [1, 2, 1]
    assert _story(server, "vmodel:v") == [
        ("vmodel created", "v1", "v1"),
        ("vmodel transition started", "v1", "v2"),
        ("vmodel promoted", "v2", "v2"),
        ("vmodel transition started", "v2", "v3"),
        ("vmodel transition failed", "v2", "v3"),
        *BACK,
    ]
    assert [event["action"] for event in server.events(subject="model:v3")] == [
        "model registered",
        "load failed",
        "load failed",
        "model auto-deleted",
    ]


BACK = [("vmodel promoted", "v1", "v1")]
"""v1 was still loaded, so that it took over at once."""


def _story(server: BridgeServer, subject: str) -> list[tuple[str, str, str]]:
    events = server.events(subject=subject)
    return [(event["action"], event["after"]["active"], event["after"]["target"]) for event in events]
