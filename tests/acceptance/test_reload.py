"""HandleReloadConfigRequest and the polled configuration file, over a whole server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import Answer, OfficialClient, export
from tests.support.postgres import postgres_server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

QUICK = ("--max_num_load_retries=0", "--reload_timeout_seconds=20")


def listed(*entries: Entry) -> str:
    """The text of a ModelServerConfig that lists these models."""
    return "model_config_list { " + " ".join(map(str, entries)) + " }"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base paths: `a` and `b` serve, `broken` has damaged variables, `empty` nothing, `many` three versions."""
    base = tmp_path_factory.mktemp("models")
    for name in ("a", "b"):
        export(base / name, 1)
    for version in (1, 2, 3):
        export(base / "many", version)
    broken = savedmodels.half_plus_two(base / "broken", 1)
    shard = broken / "variables" / "variables.data-00000-of-00001"
    shard.write_bytes(bytes(shard.stat().st_size))
    (base / "empty").mkdir()
    return base


@pytest.fixture
def server(tmp_path: Path, models: Path) -> Iterator[BridgeServer]:
    flags = ("--model_name=a", f"--model_base_path={models}/a", *QUICK)
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        yield server


def reload(client: OfficialClient, server: BridgeServer, *entries: Entry, **question: Any) -> Answer:
    return client.ask(server.grpc, "reload", config=listed(*entries), **question)


def names(server: BridgeServer) -> list[str]:
    return [model["name"] for model in server.get_json("/api/v1/models")["models"]]


def test_models_come_and_go(client: OfficialClient, server: BridgeServer, models: Path) -> None:
    a, b = Entry("a", models / "a"), Entry("b", models / "b")
    answer = reload(client, server, a, b, reason="spring cleaning", metrics=["/no/such/metric"])
    assert answer == {"status": [0, ""], "metrics": {"/no/such/metric": 0}}
    assert server.states("b") == {1: "AVAILABLE"}
    assert reload(client, server, b)["status"] == [0, ""]
    server.wait_for_states("a", {1: "END"})
    assert client.predict(server.grpc, [1.0], name="a")["code"] == "NOT_FOUND"
    assert reload(client, server, a)["status"] == [0, ""]
    assert server.states("a") == {1: "AVAILABLE"}
    server.wait_for_states("b", {1: "END"})
    assert reload(client, server)["status"] == [0, ""]
    server.wait_for_states("a", {1: "END"})
    assert names(server) == []
    applied = server.events(action="config applied")
    assert [len(event["after"]["models"]) for event in applied] == [1, 2, 1, 1, 0]
    assert (applied[1]["source"], applied[1]["reason"]) == ("RPC", "spring cleaning")


def test_the_same_again_writes_nothing(client: OfficialClient, server: BridgeServer, models: Path) -> None:
    a = Entry("a", models / "a")
    before = len(server.events(action="config applied"))
    for _ in range(3):
        assert reload(client, server, a)["status"] == [0, ""]
    assert len(server.events(action="config applied")) == before


FAILED = "1 model(s) did not become available: {{{{{{name: {} version: {}}} due to error: {}}}, }}"


def test_a_missing_base_path_is_told_at_once_and_changes_nothing(
    client: OfficialClient, server: BridgeServer, models: Path
) -> None:
    started = time.monotonic()
    answer = reload(client, server, Entry("b", models / "b"), Entry("gone", models / "gone"))
    assert time.monotonic() - started < 10
    missing = f"NOT_FOUND: Could not find base path {models}/gone for servable gone"
    assert (answer["code"], answer["details"]) == ("UNKNOWN", FAILED.format("gone", 0, missing))
    assert names(server) == ["a"]
    assert server.states("a") == {1: "AVAILABLE"}
    server.wait_for_states("b", {1: "END"})
    assert reload(client, server, Entry("b", models / "b"))["status"] == [0, ""]


def test_a_model_that_does_not_load_is_tried_again_each_time(
    client: OfficialClient, server: BridgeServer, models: Path
) -> None:
    for _ in range(2):
        answer = reload(client, server, Entry("a", models / "a"), Entry("broken", models / "broken"))
        assert answer["code"] == "UNKNOWN"
        assert answer["details"].startswith("1 model(s) did not become available: {{{name: broken version: 1} due to")
        assert names(server) == ["a"]
        assert server.states("broken") == {1: "END"}
    assert server.states("a") == {1: "AVAILABLE"}
    loads = [
        event
        for event in server.events(subject="model:broken")
        if event["after"] and event["after"].get("state") == "LOADING"
    ]
    assert len(loads) == 2


def test_a_base_path_without_versions_times_out(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    flags = ("--model_name=a", f"--model_base_path={models}/a", "--reload_timeout_seconds=1")
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        answer = reload(client, server, Entry("empty", models / "empty"))
        assert answer["code"] == "UNKNOWN"
        assert answer["details"] == FAILED.format("empty", 0, "DEADLINE_EXCEEDED: not loaded within 1 s")
        assert names(server) == ["a"]


@pytest.mark.parametrize(
    ("labels", "code"),
    [({"stable": 1}, ""), ({"stable": 2}, "FAILED_PRECONDITION"), ({"stable": 1, "next": 3}, "FAILED_PRECONDITION")],
)
def test_labels(client: OfficialClient, server: BridgeServer, models: Path, labels: dict[str, int], code: str) -> None:
    answer = reload(client, server, Entry("a", models / "a", labels=labels))
    assert answer.get("code", "") == code
    found = client.predict(server.grpc, [1.0], name="a", label="stable")
    if code:
        version = next(version for version in labels.values() if version != 1)
        assert answer["details"] == (
            f"Request to assign label to version {version} of model a, which is not currently available for inference"
        )
        assert found["details"] == "Unrecognized servable version label: stable"
    else:
        assert found["spec"]["version"] == 1


def test_policies_change_without_a_wait(client: OfficialClient, server: BridgeServer, models: Path) -> None:
    many = models / "many"
    assert reload(client, server, Entry("many", many))["status"] == [0, ""]
    assert server.states("many") == {3: "AVAILABLE"}
    reload(client, server, Entry("many", many, "specific { versions: 1 versions: 2 }"))
    server.wait_for_states("many", {3: "END", 2: "AVAILABLE", 1: "AVAILABLE"})
    reload(client, server, Entry("many", many, "all {}"))
    server.wait_for_states("many", dict.fromkeys((3, 2, 1), "AVAILABLE"))


def test_the_polled_file(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    config = model_config.write(tmp_path / "models.config", Entry("a", models / "a"))
    flags = (f"--model_config_file={config}", "--model_config_file_poll_wait_seconds=1", *QUICK)
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        model_config.write(config, Entry("a", models / "a"), Entry("many", models / "many", labels={"best": 3}))
        server.wait_for_states("many", {3: "AVAILABLE"})
        wait_for(
            lambda: client.predict(server.grpc, [1.0], name="many", label="best").get("spec"),
            10,
            "the label is assigned",
        )
        config.write_text("model_config_list { config { nam: 'typo' } }")
        [line] = server.wait_for_log("refused", str(config))
        assert f"Invalid protobuf file: '{config}'" in line
        assert reload(client, server, Entry("b", models / "b"))["status"] == [0, ""]
        wait_for(lambda: names(server) == ["b"], 10, "the client's configuration holds")
        model_config.write(config, Entry("a", models / "a"))
        server.wait_for_states("a", {1: "AVAILABLE"})
        wait_for(lambda: names(server) == ["a"], 10, "the edited file wins")
        assert len(server.log_lines("refused")) == 1
        assert len(server.events(action="config rejected")) == 1


def test_no_versions_at_start(tmp_path: Path, models: Path) -> None:
    flags = ("--model_name=e", f"--model_base_path={models}/empty", "--fail_if_zero_versions_at_startup")
    server = BridgeServer(tmp_path / "bridge", *flags)
    try:
        assert server.launch().wait() == 1
        assert f"Unable to find a numerical version path for servable e at: {models}/empty" in server.tail()
    finally:
        server.close()


def test_a_source_configuration_of_its_own(tmp_path: Path, models: Path) -> None:
    config = tmp_path / "source.config"
    config.write_text(
        "custom_model_config { [type.googleapis.com/tensorflow.serving.FileSystemStoragePathSourceConfig] {\n"
        f"  servables {{ servable_name: 'many' base_path: '{models}/many' servable_version_policy {{ all {{}} }} }}\n"
        f"  servable_name: 'a' base_path: '{models}/a' file_system_poll_wait_seconds: 1\n"
        "} }\n"
    )
    with BridgeServer(tmp_path / "bridge", f"--model_config_file={config}") as server:
        assert server.states("a") == {1: "AVAILABLE"}
        server.wait_for_states("many", dict.fromkeys((3, 2, 1), "AVAILABLE"))


def test_a_clients_deadline_ends_its_reload(client: OfficialClient, server: BridgeServer, models: Path) -> None:
    answer = reload(client, server, Entry("a", models / "a"), Entry("empty", models / "empty"), timeout=3)
    assert answer["code"] == "UNKNOWN", "the answer is there before the client gives up"
    late = r"{{name: empty version: 0} due to error: DEADLINE_EXCEEDED: not loaded within 2\.\d+ s}"
    assert re.search(late, answer["details"]), answer
    assert names(server) == ["a"]


def test_an_operators_change_during_a_reload_stands(tmp_path: Path, client: OfficialClient) -> None:
    for version in (1, 2):
        export(tmp_path / "numbered", version)
    (tmp_path / "empty").mkdir()
    flags = ("--model_name=numbered", f"--model_base_path={tmp_path}/numbered", "--reload_timeout_seconds=4")
    with BridgeServer(tmp_path / "bridge", *flags) as server, ThreadPoolExecutor(1) as pool:
        entries = (Entry("numbered", tmp_path / "numbered"), Entry("empty", tmp_path / "empty"))
        reloading = pool.submit(reload, client, server, *entries)
        server.wait_for_log("No versions of servable empty found")
        assert server.change("PUT", "/api/v1/policy?model=numbered", {"all": {}}).json == {"changed": True}
        server.wait_for_states("numbered", {2: "AVAILABLE", 1: "AVAILABLE"})
        assert not reloading.done()
        assert reloading.result(30)["code"] == "UNKNOWN"
        [model] = server.get_json("/api/v1/models")["models"]
        assert model["policy"] == {"all": {}}
        server.wait_for_states("numbered", {2: "AVAILABLE", 1: "AVAILABLE"})


def test_a_reload_while_the_database_is_away(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    with postgres_server() as postgres:
        flags = ("--model_name=a", f"--model_base_path={models}/a", "--migrate", *QUICK)
        with BridgeServer(tmp_path / "bridge", *flags, f"--database_url={postgres.create_database()}") as server:
            postgres.kill()
            answer = reload(client, server, Entry("b", models / "b"))
            assert answer["code"] == "UNAVAILABLE", answer
            assert client.predict(server.grpc, [1.0], name="a")["spec"]["version"] == 1
            assert client.predict(server.grpc, [1.0], name="b")["code"] == "NOT_FOUND"
            postgres.start()
            wait_for(
                lambda: reload(client, server, Entry("b", models / "b")).get("status") == [0, ""],
                30,
                "the database is back",
            )
            assert client.predict(server.grpc, [1.0], name="b")["spec"]["version"] == 1
            server.wait_for_states("a", {1: "END"})
