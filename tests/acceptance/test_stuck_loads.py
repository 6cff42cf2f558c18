"""A runner that dies while it starts, for which Triton up to 25.08 waits for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import Start
from tests.support.bridge_server import BridgeServer
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration


def kill_starting_runner(server: BridgeServer, model: str) -> None:
    """kill -9 of the model's stub as soon as there is one, long before it can answer Triton."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for stub in server.stubs:
            if f".{model}/1/model.py" in stub.command:
                stub.kill()
                return
    raise AssertionError(f"no runner of {model} was seen")


def test_the_lost_load_is_noticed_and_triton_started_anew(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    server = start()
    with client.loop(server.grpc, name="numbered") as loop:
        export(tmp_path / "numbered", 2)
        kill_starting_runner(server, "numbered.2")
        server.wait_for_log("tritonserver is started anew: the runner of", "numbered.2 died", seconds=40)
        loop.wait_for_version(2, seconds=30)
        server.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})
        loop.wait_for_answers(20)
    assert not loop.tally["wrong"], loop.tally
    assert set(loop.tally["errors"]) <= {"UNAVAILABLE"}, loop.tally
    assert loop.tally["versions"] == [1, 2]
    wait_for(lambda: server.get_json("/api/v1/models")["models"][0]["problems"] == [], 10, "the trouble is over")
