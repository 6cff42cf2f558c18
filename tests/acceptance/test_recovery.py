"""kill -9 of every process, one at a time, under a client that never pauses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import Start
from tests.support import model_config
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import Loop, OfficialClient, export
from tests.support.processes import Process
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

BACK_SECONDS = 10.0


def kill_stub(server: BridgeServer) -> None:
    [stub] = server.stubs
    stub.kill()


def kill_triton(server: BridgeServer) -> None:
    server.triton.kill()


def kill_bridge(server: BridgeServer) -> None:
    """And start it at once, as a supervisor does."""
    server.kill()
    server.launch()


def kill_everything(server: BridgeServer) -> None:
    for process in server.processes():
        process.kill()
    server.wait()
    server.launch()


@pytest.mark.parametrize("kill", [kill_stub, kill_triton, kill_bridge, kill_everything])
def test_service_returns_by_itself(
    start: Start, tmp_path: Path, client: OfficialClient, kill: Callable[[BridgeServer], None]
) -> None:
    export(tmp_path / "numbered", 1)
    export(tmp_path / "numbered", 2)
    server = start()
    with client.loop(server.grpc, name="numbered") as loop:
        loop.wait_for_answers(20)
        before = server.stubs
        kill(server)
        _wait_for_another_runner(server, before)
        loop.wait_for_answers(50)
        server.wait_ready()
    _only_was_unavailable(loop)
    assert loop.tally["versions"] == [2], "never another version"
    assert client.ask(server.grpc, "status", spec={"name": "numbered"}) == {"rows": [[2, 30, 0, ""]]}
    _no_version_ended(server)


def test_the_runner_may_die_again_and_again(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    server = start()
    with client.loop(server.grpc, name="numbered") as loop:
        for _ in range(3):
            before = server.stubs
            kill_stub(server)
            _wait_for_another_runner(server, before)
            loop.wait_for_answers(20)
    _only_was_unavailable(loop)
    _no_version_ended(server)


def test_an_engine_process_may_die(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    """All versions go with it and all come back, under a client of each of two models."""
    for model in ("numbered", "other"):
        export(tmp_path / model, 1)
    entries = [Entry(model, tmp_path / model) for model in ("numbered", "other")]
    config = model_config.write(tmp_path / "models.config", *entries)
    server = start(f"--model_config_file={config}", "--runner_processes=per-device")
    with client.loop(server.grpc, name="numbered") as loop, client.loop(server.grpc, name="other") as other:
        loop.wait_for_answers(20)
        before = server.stubs
        [engine] = server.engines
        engine.kill()
        wait_for(lambda: len(server.stubs) == 2 and not set(before) & set(server.stubs), BACK_SECONDS, "new runners")
        loop.wait_for_answers(20)
        other.wait_for_answers(20)
    _only_was_unavailable(loop)
    _only_was_unavailable(other)
    _no_version_ended(server)
    [another] = server.engines
    assert another != engine
    server.terminate()
    assert not another.alive
    assert not server.shared_memory()


def test_one_models_runner_dies_and_the_other_model_does_not_notice(
    start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    for model in ("numbered", "other"):
        export(tmp_path / model, 1)
    entries = [Entry(model, tmp_path / model) for model in ("numbered", "other")]
    config = model_config.write(tmp_path / "models.config", *entries)
    server = start(f"--model_config_file={config}")
    with client.loop(server.grpc, name="numbered") as loop, client.loop(server.grpc, name="other") as other:
        [victim] = [stub for stub in server.stubs if ".numbered.1" in stub.command]
        victim.kill()
        wait_for(lambda: len(server.stubs) == 2 and victim not in server.stubs, BACK_SECONDS, "a new runner")
        loop.wait_for_answers(20)
        other.wait_for_answers(20)
    _only_was_unavailable(loop)
    assert other.clean, other.tally
    assert other.tally["slowest"] < 3


def test_nothing_outlives_a_killed_bridge(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    server = start()
    [stub] = server.stubs
    stub.stop()
    server.kill()
    wait_for(lambda: server.processes() in ([], [stub]), BACK_SECONDS, "all but the stopped stub have ended")
    left = server.shared_memory()
    assert left, "a stopped stub cannot remove its shared memory"
    server.start()
    assert not stub.alive, "the next start ends what could not end by itself"
    assert not set(left) & set(server.shared_memory())
    assert client.predict(server.grpc, [1.0], name="numbered")["outputs"]["y"]["values"] == [1.5]
    server.kill()
    wait_for(lambda: not server.processes(), BACK_SECONDS, "nothing is left")


def _wait_for_another_runner(server: BridgeServer, before: list[Process]) -> None:
    wait_for(lambda: server.stubs not in ([], before), BACK_SECONDS, "a new runner")


def _only_was_unavailable(loop: Loop) -> None:
    """What a client may notice: some UNAVAILABLE, for at most ten seconds, and never a wrong answer."""
    tally = loop.tally
    assert not tally["wrong"]
    assert set(tally["errors"]) <= {"UNAVAILABLE"}, tally
    assert tally["gap"] < BACK_SECONDS, tally


def _no_version_ended(server: BridgeServer) -> None:
    states = [event["after"]["state"] for event in server.events(action="version observed")]
    assert "AVAILABLE" in states
    assert "END" not in states
