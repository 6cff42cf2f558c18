"""A restart ends in the state that it began in, also when a base path cannot be used meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import Start
from tests.support.bridge_server import BridgeServer
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

STAND_IN = "model numbered serves version 2 from the model repository, as before the restart."


def empty(base_path: Path) -> None:
    shutil.rmtree(base_path)
    base_path.mkdir()


def cut(base_path: Path) -> None:
    (base_path / "2" / "variables" / "variables.data-00000-of-00001").write_bytes(b"12345")


def recorded(server: BridgeServer) -> dict[int, str]:
    """The states of versions in the registry."""
    versions = server.get_json("/api/v1/versions?model=numbered")["versions"]
    return {item["version"]: item["state"] for item in versions}


def stop(server: BridgeServer) -> None:
    assert server.terminate() == 0


@pytest.mark.parametrize(
    ("end", "spoil"), [(stop, shutil.rmtree), (BridgeServer.kill, empty)], ids=["stopped, removed", "killed, emptied"]
)
def test_what_served_serves_again_without_its_base_path(
    start: Start,
    tmp_path: Path,
    client: OfficialClient,
    end: Callable[[BridgeServer], None],
    spoil: Callable[[Path], None],
) -> None:
    base_path = tmp_path / "numbered"
    export(base_path, 1)
    export(base_path, 2)
    server = start()
    wait_for(lambda: recorded(server) == {2: "AVAILABLE"}, 10, "the history has it")
    end(server)
    spoil(base_path)
    server.start()
    for _ in range(2):
        assert client.predict(server.grpc, [1.0], name="numbered")["spec"]["version"] == 2
        assert server.states("numbered") == {2: "AVAILABLE"}
        stop(server)
        server.start()
    assert len(server.log_lines("WARNING", STAND_IN)) == 3, "once in each life"
    [model] = server.get_json("/api/v1/models")["models"]
    assert any(STAND_IN in problem for problem in model["problems"])
    with client.loop(server.grpc, name="numbered") as loop:
        export(base_path, 3)
        loop.wait_for_version(3)
        server.wait_for_states("numbered", {3: "AVAILABLE", 2: "END"})
        loop.wait_for_answers(20)
    assert loop.clean, loop.tally
    [model] = server.get_json("/api/v1/models")["models"]
    assert model["problems"] == []


def test_a_version_that_is_being_rewritten_serves_after_a_restart(
    start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    base_path = tmp_path / "numbered"
    for version in (1, 2):
        export(base_path, version)
    flags = ("--model_name=numbered", f"--model_base_path={base_path}", "--model_transfer=copy")
    server = start(*flags)
    stop(server)
    cut(base_path)
    server.start()
    assert client.predict(server.grpc, [1.0], name="numbered")["spec"]["version"] == 2
    assert server.states("numbered") == {2: "AVAILABLE"}


def test_what_did_not_serve_does_not_come_back(start: Start, tmp_path: Path) -> None:
    base_path = tmp_path / "numbered"
    for version in (1, 2):
        export(base_path, version)
    server = start()
    shutil.rmtree(base_path / "2")
    server.wait_for_states("numbered", {2: "END", 1: "AVAILABLE"})
    stop(server)
    shutil.rmtree(base_path)
    server.start()
    assert server.states("numbered") == {1: "AVAILABLE"}
