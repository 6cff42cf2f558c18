"""Several bridges on one PostgreSQL and one Triton: one leads, all serve."""

from __future__ import annotations

import http.client
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import grpc
import pytest

from bridge.registry.registry import Registry
from tests.acceptance.conftest import Start, triton_flags
from tests.support import model_config
from tests.support.bridge_server import BridgeServer
from tests.support.change_stream import ChangeStream
from tests.support.model_config import Entry
from tests.support.modelmesh_client import VMODEL, ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[TritonServer]:
    with TritonServer.start(backend_directory(tmp_path / "backends"), tmp_path / "repository") as server:
        yield server
        server.process.kill()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def pair(start: Start, tmp_path: Path, triton: TritonServer, url: str) -> list[BridgeServer]:
    """Two replicas that serve `numbered`, version 1; the first leads."""
    export(tmp_path / "numbered", 1)
    flags = [f"--database_url={url}", "--migrate", *triton_flags(triton, tmp_path / "repository")]
    return [start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right")]


def leader(url: str) -> str:
    registry = Registry.open(url)
    try:
        lease = registry.lease()
        return lease.holder if lease is not None and lease.expires_at else ""
    finally:
        registry.close()


def test_both_serve_and_changes_reach_both(
    pair: list[BridgeServer], client: OfficialClient, tmp_path: Path, url: str
) -> None:
    left, right = pair
    assert leader(url) == "left"
    with client.loop(left.grpc, name="numbered") as first, client.loop(right.grpc, name="numbered") as second:
        export(tmp_path / "numbered", 2)
        first.wait_for_version(2)
        second.wait_for_version(2)
        left.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})
        specific = {"specific": {"versions": [1, 2]}}
        assert right.change("PUT", "/api/v1/policy?model=numbered", specific).json == {"changed": True}
        left.wait_for_states("numbered", {2: "AVAILABLE", 1: "AVAILABLE"})
        wait_for(lambda: right.states("numbered") == {2: "AVAILABLE", 1: "AVAILABLE"}, 2, "the other one knows")
        assert right.change("PUT", "/api/v1/label?model=numbered&label=stable", {"version": 1}).json == {
            "changed": True
        }
        assert client.predict(right.grpc, [1.0], name="numbered", label="stable")["spec"]["version"] == 1
        left.signal(signal.SIGSTOP)
        left.signal(signal.SIGCONT)
    assert first.clean, first.tally
    assert second.clean, second.tally
    right.terminate()
    assert left.terminate() == 0


def test_a_rollover_every_second_while_one_is_stopped_now_and_then(
    pair: list[BridgeServer], client: OfficialClient, tmp_path: Path
) -> None:
    _roll_over(pair, client, tmp_path, 6)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_rollover_every_second_for_five_minutes(
    pair: list[BridgeServer], client: OfficialClient, tmp_path: Path
) -> None:
    _roll_over(pair, client, tmp_path, 300)


@pytest.mark.slow
def test_workers_of_replicas_are_routers_like_others(
    triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient, url: str
) -> None:
    export(tmp_path / "numbered", 1)
    flags = [f"--database_url={url}", "--migrate", "--workers=2", *triton_flags(triton, tmp_path / "repository")]
    _roll_over([start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right")], client, tmp_path, 8)
    registry = Registry.open(url)
    try:
        names = {router.name for router in registry.routers()}
    finally:
        registry.close()
    assert {"left", "right"} < names
    assert len(names) == 6


def _roll_over(pair: list[BridgeServer], client: OfficialClient, tmp_path: Path, seconds: int) -> None:
    """Every second a new version; every third second a replica is stopped for one, the leader and the other in turn."""
    with (
        client.loop(pair[0].grpc, name="numbered") as first,
        client.loop(pair[1].grpc, name="numbered") as second,
    ):
        for version in range(2, seconds + 2):
            began = time.monotonic()
            stopped = pair[version // 3 % 2] if version % 3 == 0 else None
            if stopped is not None:
                stopped.signal(signal.SIGSTOP)
            export(tmp_path / "numbered", version)
            if version > 6:
                shutil.rmtree(tmp_path / "numbered" / str(version - 5))
            time.sleep(max(0.0, began + 1 - time.monotonic()))
            if stopped is not None:
                stopped.signal(signal.SIGCONT)
        for loop in (first, second):
            loop.wait_for_version(seconds + 1)
    for loop in (first, second):
        assert loop.clean, loop.tally
        assert loop.tally["versions"] == sorted(loop.tally["versions"])
    for server in pair:
        server.wait_for_states("numbered", {**_ended(server, seconds + 1), seconds + 1: "AVAILABLE"}, 30)


def _ended(server: BridgeServer, newest: int) -> dict[int, str]:
    return {version: "END" for version in server.states("numbered") if version != newest}


def test_kills_lose_no_change_and_invent_none(
    postgres: PostgresServer, triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient, url: str
) -> None:
    handovers = _kill(postgres, _killed_pair(start, tmp_path, triton, url), client, url, rounds=1)
    assert max(handovers) < 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_kills_lose_no_change_and_invent_none(
    postgres: PostgresServer, triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient, url: str
) -> None:
    handovers = _kill(postgres, _killed_pair(start, tmp_path, triton, url), client, url, rounds=8)
    print(f"seconds from a kill of the leader to 20 further changes: {[round(item, 1) for item in handovers]}")
    assert max(handovers) < 10


def _killed_pair(start: Start, tmp_path: Path, triton: TritonServer, url: str) -> list[BridgeServer]:
    export(tmp_path / "numbered", 1)
    flags = [f"--database_url={url}", "--migrate", "--leader_lease_seconds=2"]
    flags += triton_flags(triton, tmp_path / "repository")
    return [start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right")]


def _kill(
    postgres: PostgresServer, pair: list[BridgeServer], client: OfficialClient, url: str, rounds: int
) -> list[float]:
    """In each round kill the leader, the other one, and PostgreSQL, under changes; how long each takeover took.

    A client of the replica that takes over sees no error.
    """
    asked, handovers = list(pair), []
    with ChangeStream("numbered", lambda: [server.admin for server in asked]) as changes:
        changes.wait_for_changes(20)
        for number in range(rounds):
            leads, follows = pair if number % 2 == 0 else pair[::-1]
            with client.loop(follows.grpc, name="numbered") as loop:
                asked.remove(leads)
                leads.kill()
                handovers.append(changes.wait_for_changes(20))
                leads.start()
                asked.append(leads)
                changes.wait_for_changes(20)
                asked.remove(leads)
                leads.kill()
                changes.wait_for_changes(20)
                leads.start()
                asked.append(leads)
                postgres.kill()
                loop.wait_for_answers(100)
                postgres.start()
                changes.wait_for_changes(20, 30)
            assert loop.clean, loop.tally
            assert leader(url) == follows.state_dir.parent.name
    registry = Registry.open(url)
    try:
        assert registry.verify_chain() is None
        events = [
            {"action": event.action, "after": event.after}
            for event in registry.events(subject="model:numbered", limit=100_000)
        ]
        changes.check(events, registry.model("numbered").policy)
    finally:
        registry.close()
    assert {server.terminate() for server in pair} == {0}
    return handovers


@pytest.mark.slow
def test_a_replica_that_was_stopped_for_longer_than_its_leases_fails_no_request(
    triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient, url: str
) -> None:
    """Each loses the lease of its router, the leader the leadership, and what they served by is gone meanwhile."""
    export(tmp_path / "numbered", 1)
    flags = [f"--database_url={url}", "--migrate", "--leader_lease_seconds=2", "--router_lease_seconds=2"]
    flags += triton_flags(triton, tmp_path / "repository")
    left, right = (start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right"))
    with client.loop(left.grpc, name="numbered") as first, client.loop(right.grpc, name="numbered") as second:
        for version, stopped, other, seen in ((2, left, right, second), (3, right, left, first)):
            stopped.signal(signal.SIGSTOP)
            export(tmp_path / "numbered", version)
            seen.wait_for_version(version)
            other.wait_for_states("numbered", {**_ended(other, version), version: "AVAILABLE"})
            stopped.signal(signal.SIGCONT)
            for loop in (first, second):
                loop.wait_for_version(version)
    for loop in (first, second):
        assert loop.clean, loop.tally
    taken = [event["after"] for event in left.events(action="leadership taken")]
    assert [after["holder"] for after in taken] == ["left", "right", "left"]


@pytest.mark.slow
def test_a_leader_without_its_database_decides_nothing(
    postgres: PostgresServer, triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient, url: str
) -> None:
    export(tmp_path / "numbered", 1)
    flags = [f"--database_url={url}", "--migrate", "--leader_lease_seconds=2"]
    flags += triton_flags(triton, tmp_path / "repository")
    left, right = (start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right"))
    with client.loop(left.grpc, name="numbered") as first, client.loop(right.grpc, name="numbered") as second:
        postgres.kill()
        time.sleep(2.5)
        export(tmp_path / "numbered", 2)
        for loop in (first, second):
            loop.wait_for_answers(100)
        loaded = [item.name for item in triton.client().get_model_repository_index().models if item.state == "READY"]
        assert [name.rpartition(".")[2] for name in loaded] == ["1"]
        for server in (left, right):
            refused = server.change("PUT", "/api/v1/label?model=numbered&label=stable", {"version": 1})
            assert (refused.status, refused.json["code"]) == (503, "UNAVAILABLE")
        postgres.start()
        for loop in (first, second):
            loop.wait_for_version(2)
    for loop in (first, second):
        assert loop.clean, loop.tally


def test_each_change_of_two_different_files_holds_once(
    start: Start, tmp_path: Path, triton: TritonServer, url: str, client: OfficialClient
) -> None:
    export(tmp_path / "numbered", 1)
    export(tmp_path / "numbered", 2)
    files = {name: tmp_path / f"{name}.config" for name in ("left", "right")}

    def write(name: str, version: int, label: str) -> None:
        policy = f"specific {{ versions: {version} }}"
        model_config.write(files[name], Entry("numbered", tmp_path / "numbered", policy, {label: version}))

    write("left", 1, "of_left")
    write("right", 2, "of_right")
    flags = [f"--database_url={url}", "--migrate", "--model_config_file_poll_wait_seconds=1"]
    flags += triton_flags(triton, tmp_path / "repository")
    servers = {
        name: start(*flags, f"--replica_name={name}", f"--model_config_file={path}", name=name)
        for name, path in files.items()
    }

    def all_serve(version: int) -> bool:
        return all(server.states("numbered").get(version) == "AVAILABLE" for server in servers.values())

    wait_for(lambda: all_serve(2), 20, "the second file holds")
    write("left", 1, "newer_of_left")
    wait_for(lambda: all_serve(1), 20, "then the first again")
    servers["left"].kill()
    servers["left"].start()
    time.sleep(1.5)
    assert client.predict(servers["right"].grpc, [1.0], name="numbered", label="newer_of_left")["spec"]["version"] == 1
    applied = [event["after"]["models"]["numbered"]["labels"] for event in _applied(url)]
    assert applied == [{"of_left": 1}, {"of_right": 2}, {"newer_of_left": 1}]


def _applied(url: str) -> list[dict[str, Any]]:
    registry = Registry.open(url)
    try:
        return [{"after": event.after} for event in registry.events(action="config applied", limit=1000)]
    finally:
        registry.close()


def test_bridges_with_tritons_of_their_own_share_what_is_wanted(
    start: Start, tmp_path: Path, url: str, client: OfficialClient
) -> None:
    for version in (1, 2):
        export(tmp_path / "numbered", version)
    flags = [f"--database_url={url}", "--migrate", "--leader_lease_seconds=2", "--router_lease_seconds=3"]
    left, right = (start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right"))
    for labels in ({}, {"stable": 1}):
        config = model_config.text(Entry("numbered", tmp_path / "numbered", "all {}", labels))
        assert "code" not in client.ask(right.grpc, "reload", config=config)
        for server in (left, right):
            server.wait_for_states("numbered", {2: "AVAILABLE", 1: "AVAILABLE"})
    for server in (left, right):
        assert client.predict(server.grpc, [1.0], name="numbered", label="stable")["spec"]["version"] == 1
    left.kill()

    def states() -> dict[str, str]:
        return {item["name"]: item["state"] for item in right.get_json("/api/v1/instances")["instances"]}

    to_2 = ("PUT", "/api/v1/label?model=numbered&label=stable", {"version": 2})
    wait_for(lambda: right.change(*to_2).json == {"changed": True}, 10, "the other one leads")
    assert leader(url) == "right"
    wait_for(
        lambda: states() == {"embedded@left": "unknown", "embedded@right": "up"}, 10, "the dead one's is unwatched"
    )
    assert client.predict(right.grpc, [1.0], name="numbered", label="stable")["spec"]["version"] == 2
    left.start()
    assert client.predict(left.grpc, [1.0], name="numbered", label="stable")["spec"]["version"] == 2
    owners = {item["name"]: item["owner"] for item in left.get_json("/api/v1/instances")["instances"]}
    assert owners == {"embedded@left": "replica left", "embedded@right": "replica right"}
    left.signal(signal.SIGSTOP)
    wait_for(lambda: states()["embedded@left"] == "unknown", 10, "who is silent is taken for dead")
    left.signal(signal.SIGCONT)
    wait_for(lambda: states()["embedded@left"] == "up", 10, "until it speaks again")
    for server in (right, left):
        assert server.terminate() == 0
    registry = Registry.open(url)
    try:
        assert registry.verify_chain() is None
    finally:
        registry.close()


@pytest.mark.parametrize("children", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["remote", "children"])
def test_registered_models_are_everybodys(
    children: bool, triton: TritonServer, start: Start, tmp_path: Path, url: str, client: OfficialClient
) -> None:
    """Managed by whichever replica is asked, also past the leader's death; loaded when they are first asked for."""
    for version in (1, 2):
        export(tmp_path / "models" / f"m{version}", 1, "")
    export(tmp_path / "numbered", 1)
    flags = [f"--database_url={url}", "--migrate", "--leader_lease_seconds=2", f"--model_root={tmp_path}/models"]
    flags += [] if children else triton_flags(triton, tmp_path / "repository")
    left, right = (start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right"))
    for server in (left, right):
        server.wait_for_instances()

    def answers(server: BridgeServer, name: str) -> bool:
        answer = client.predict(server.modelmesh, [0.0], name=name)
        return "outputs" in answer

    with ModelMeshClient(right.modelmesh) as mesh:
        for version in (1, 2):
            info = {"type": "tensorflow", "path": f"m{version}/1"}
            mesh("registerModel", modelId=f"m{version}", modelInfo=info)
        assert VMODEL(mesh("setVModel", vModelId="v", targetModelId="m1", sync=True).status) == "DEFINED"
        for server in (right, left):
            assert answers(server, "v")
        mesh("setVModel", vModelId="v", targetModelId="m2", sync=True)
        assert mesh.vmodel("v") == ("DEFINED", "m2", "m2")
        left.kill()
        wait_for(lambda: _sets(mesh, "v", "m1"), 15, "the other one leads")
        assert answers(right, "v")
        left.start()
        assert answers(left, "v")
        assert [item["active"] for item in left.get_json("/api/v1/vmodels")["vmodels"]] == ["m1"]


def _sets(mesh: ModelMeshClient, vmodel: str, target: str) -> bool:
    try:
        return bool(mesh("setVModel", vModelId=vmodel, targetModelId=target, sync=True).activeModelId == target)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False


def test_the_console_of_one_that_follows_shows_tells_and_rolls_back(pair: list[BridgeServer], tmp_path: Path) -> None:
    left, right = pair
    export(tmp_path / "numbered", 2)
    wait_for(lambda: right.states("numbered").get(2) == "AVAILABLE", 30, "version 2 serves")
    for page in ("/", "/models?name=numbered", "/history", "/rollback?subject=numbered"):
        answer = right.request("GET", page, to=right.admin)
        assert answer.status == 200, answer
        assert "<main" in answer.body.decode()
    assert b"[2]" in right.request("GET", "/rollback?subject=numbered", to=right.admin).body
    listening = http.client.HTTPConnection(right.admin, timeout=20)
    listening.request("GET", "/api/v1/stream")
    stream = listening.getresponse()
    form = urlencode({"subject": "model:numbered", "to": "", "reason": "it is nonsense"}).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    foreign = {**kind, "origin": "http://evil.example"}
    assert right.request("POST", "/rollback", form, headers=foreign, to=right.admin).status == 403
    answer = right.request(
        "POST", "/rollback", form, headers={**kind, "origin": f"http://{right.admin}"}, to=right.admin
    )
    assert answer.status == 303, answer
    while b"it is nonsense" not in stream.readline():
        pass
    listening.close()
    left.wait_for_states("numbered", {1: "AVAILABLE", 2: "END"})
    assert right.terminate() == 0
