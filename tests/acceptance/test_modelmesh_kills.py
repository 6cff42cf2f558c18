"""kill -9 of the bridge in every step of a vmodel's transition: after a restart it ends where the contract says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import grpc
import pytest

from tests.acceptance.conftest import triton_flags
from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

NAMES = count()
END_SECONDS = 30.0


@pytest.fixture(scope="module")
def fuse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuse") / "fuse"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, fuse: Path) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("kills")
    for version in (1, 2):
        export(directory / "models" / f"m{version}", version)
    repository = directory / "repository"
    program = (sys.executable, "-m", "tests.acceptance.fragile_server", str(fuse))
    with TritonServer.start(backend_directory(directory / "backends"), repository) as triton:
        flags = [f"--model_root={directory / 'models'}", *triton_flags(triton, repository)]
        with BridgeServer(directory / "bridge", *flags, program=program) as server:
            yield server
        triton.process.kill()


MOVES = [
    "the change is written",
    "a load begins",
    "a load has ended",
    "the promotion begins",
    "the promotion is written",
    "an unload begins",
    "an unload has ended",
]
FAILURES = [
    "the change is written",
    "a load begins",
    "a load has ended",
    "a failed load is to be recorded",
    "a failed load is recorded",
    "the failure of the transition is to be written",
    "the failure of the transition is written",
    "an unload begins",
]


@pytest.mark.parametrize("point", MOVES)
def test_a_good_target_takes_over(server: BridgeServer, fuse: Path, client: OfficialClient, point: str) -> None:
    vmodel, old, new = _begin(server, fuse, point, target="m2")
    with ModelMeshClient(server.modelmesh) as mesh:
        wait_for(lambda: mesh.vmodel(vmodel) == ("DEFINED", new, new), END_SECONDS, f"{vmodel} is promoted")
        assert mesh.model(old) == "NOT_FOUND"
        assert client.predict(server.modelmesh, [0.0], name=vmodel)["outputs"]["y"]["values"] == [2.0]
        mesh("deleteVModel", vModelId=vmodel)
    actions = [event["action"] for event in server.changes(f"vmodel:{vmodel}")]
    assert actions == ["vmodel created", "vmodel transition started", "vmodel promoted", "vmodel deleted"]


@pytest.mark.parametrize("point", FAILURES)
def test_a_broken_target_never_serves(server: BridgeServer, fuse: Path, client: OfficialClient, point: str) -> None:
    vmodel, old, new = _begin(server, fuse, point, target="nowhere")
    with ModelMeshClient(server.modelmesh) as mesh:
        wait_for(lambda: mesh.vmodel(vmodel) == ("TRANSITION_FAILED", old, new), END_SECONDS, f"{vmodel} failed")
        assert client.predict(server.modelmesh, [0.0], name=vmodel)["outputs"]["y"]["values"] == [1.0]
        assert mesh.vmodel(vmodel) == ("TRANSITION_FAILED", old, new)
        mesh("deleteVModel", vModelId=vmodel)
        assert (mesh.model(old), mesh.model(new)) == ("NOT_FOUND", "NOT_FOUND")


def test_a_change_that_was_not_written_never_was(server: BridgeServer, fuse: Path) -> None:
    vmodel, old, new = _begin(server, fuse, "the change is wanted", target="m2")
    with ModelMeshClient(server.modelmesh) as mesh:
        assert mesh.vmodel(vmodel) == ("DEFINED", old, old)
        assert mesh.model(new) == "NOT_FOUND"
        mesh("deleteVModel", vModelId=vmodel)


def _begin(server: BridgeServer, fuse: Path, point: str, target: str) -> tuple[str, str, str]:
    """A new vmodel that serves m1 and shall move to `target`; the server was killed at `point` and started again."""
    number = next(NAMES)
    vmodel, old, new = f"v{number}", f"old{number}", f"new{number}"
    server.wait_for_instances()
    asked = {"vModelId": vmodel, "autoDeleteTargetModel": True}
    with ModelMeshClient(server.modelmesh) as mesh:
        first = {"type": "tensorflow", "path": "m1"}
        mesh("setVModel", **asked, targetModelId=old, modelInfo=first, loadNow=True, sync=True)
        fuse.write_text(point)
        with suppress(grpc.RpcError):
            mesh("setVModel", **asked, targetModelId=new, modelInfo={"type": "tensorflow", "path": target})
    assert server.wait(END_SECONDS) != 0
    assert not fuse.exists()
    server.start()
    return vmodel, old, new
