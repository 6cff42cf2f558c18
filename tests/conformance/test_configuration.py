"""What a reload, the polled file and the start refuse, over a real server; and what stays served, row by row."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import model_config, model_server
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.model_server import ModelServer
from tests.support.official_client import Answer, OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

INVALID, PRECONDITION = "INVALID_ARGUMENT", "FAILED_PRECONDITION"
ONLY_LISTS = (
    "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported"
)
NOT_AVAILABLE = "Request to assign label to version {} of model {}, which is not currently available for inference"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base paths: `a` and `b` have version 1, `two` the versions 1 and 2, `empty` none."""
    base = tmp_path_factory.mktemp("models")
    for name, versions in {"a": (1,), "b": (1,), "two": (1, 2)}.items():
        for version in versions:
            export(base / name, version)
    (base / "empty").mkdir()
    return base


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[BridgeServer]:
    """A server of `a` that refuses everything that is asked of it."""
    flags = ("--model_name=a", f"--model_base_path={models}/a", "--max_num_load_retries=0")
    with BridgeServer(tmp_path_factory.mktemp("refusing"), *flags) as server:
        yield server


def listed(*configs: str) -> str:
    return "model_config_list { " + " ".join(f"config {{ {config} }}" for config in configs) + " }"


A = 'name: "a" base_path: "{models}/a" model_platform: "tensorflow"'
B = 'name: "b" base_path: "{models}/b"'
REFUSED: dict[str, tuple[str, str, str]] = {
    "no list": ("", INVALID, ONLY_LISTS),
    "a custom configuration": (
        "custom_model_config { type_url: 'type.googleapis.com/tensorflow.serving.ModelConfig' }",
        INVALID,
        ONLY_LISTS,
    ),
    "a model twice": (listed(A, A), INVALID, "Illegal to list model a multiple times in config list"),
    "a relative base path": (
        listed(A, 'name: "b" base_path: "b" model_platform: "tensorflow"'),
        INVALID,
        "Expected model b to have an absolute path or URI; got base_path()=b",
    ),
    "no base path": (
        listed(A, 'name: "b" model_platform: "tensorflow"'),
        INVALID,
        "Expected model b to have an absolute path or URI; got base_path()=",
    ),
    "another platform": (
        listed(A.replace("tensorflow", "hashmap")),
        INVALID,
        "Illegal to change a model's platform. For model a platform was tensorflow and new platform requested is "
        "hashmap",
    ),
    "a version that does not serve": (
        listed(A + ' version_labels {{ key: "stable" value: 9 }}'),
        PRECONDITION,
        NOT_AVAILABLE.format(9, "a"),
    ),
    "a label of a new model": (
        listed(A, B + ' model_platform: "tensorflow" version_labels {{ key: "stable" value: 1 }}'),
        PRECONDITION,
        NOT_AVAILABLE.format(1, "b"),
    ),
    "type and platform": (
        listed(A, B + ' model_type: TENSORFLOW model_platform: "tensorflow"'),
        INVALID,
        "Illegal setting both ModelServerConfig::model_type (deprecated) and ModelServerConfig::model_platform, "
        "model name is b",
    ),
    "neither type nor platform": (
        listed(A, B),
        INVALID,
        "Illegal setting neither ModelServerConfig::model_type (deprecated) nor ModelServerConfig::model_platform, "
        "model name is b",
    ),
    "another type": (
        listed(A, B + " model_type: OTHER"),
        INVALID,
        "ModelServerConfig::model_type choice 2 not supported.",
    ),
    "an unknown platform": (
        listed(A, B + ' model_platform: "hashmap"'),
        INVALID,
        "Model b requests unsupported platform hashmap",
    ),
    "an unknown log collector": (
        listed(A + ' logging_config {{ log_collector_config {{ type: "x" filename_prefix: "/l" }} }}'),
        "NOT_FOUND",
        "Cannot find LogCollector::Factory for type: x",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_reload_is_refused_and_changes_nothing(
    server: BridgeServer, client: OfficialClient, models: Path, case: str
) -> None:
    text, code, details = REFUSED[case]
    config = text.replace("{models}", str(models)).replace("{{", "{").replace("}}", "}")
    assert client.ask(server.grpc, "reload", config=config) == {"code": code, "details": details}
    assert server.states("a") == {1: "AVAILABLE"}
    assert client.predict(server.grpc, [1.0], name="a")["outputs"]["y"]["values"] == [1.5]
    assert [model["name"] for model in server.get_json("/api/v1/models")["models"]] == ["a"]


def reload(client: OfficialClient, server: BridgeServer, *entries: Entry, **question: Any) -> Answer:
    return client.ask(server.grpc, "reload", config=model_config.text(*entries), **question)


def test_a_reload_waits_for_the_one_before(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    flags = ("--model_name=a", f"--model_base_path={models}/a", "--reload_timeout_seconds=2")
    with BridgeServer(tmp_path, *flags) as server, OfficialClient() as other:
        a = Entry("a", models / "a")
        answers: list[Answer] = []
        first = threading.Thread(
            target=lambda: answers.append(reload(other, server, a, Entry("empty", models / "empty")))
        )
        first.start()
        server.wait_for_log(f"found under base path {models}/empty")
        began = time.monotonic()
        assert reload(client, server, a, Entry("b", models / "b"))["status"] == [0, ""]
        first.join()
        assert [answer["code"] for answer in answers] == ["UNKNOWN"]
        assert time.monotonic() - began > 0.5
        assert server.states("b") == {1: "AVAILABLE"}


def test_new_labels_may_point_anywhere_with_the_flag(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    flags = ("--model_name=two", f"--model_base_path={models}/two", "--allow_version_labels_for_unavailable_models")
    with BridgeServer(tmp_path, *flags) as server:
        two = models / "two"
        assert reload(client, server, Entry("two", two, labels={"next": 9}))["status"] == [0, ""]
        found = client.predict(server.grpc, [1.0], name="two", label="next")
        assert found == {"code": "NOT_FOUND", "details": "Servable not found for request: Specific(two, 9)"}
        assert reload(client, server, Entry("two", two, labels={"next": 9}))["status"] == [0, ""]
        moved = reload(client, server, Entry("two", two, labels={"next": 8}))
        assert moved == {"code": PRECONDITION, "details": NOT_AVAILABLE.format(8, "two")}
        assert reload(client, server, Entry("two", two, labels={"next": 2}))["status"] == [0, ""]
        assert client.predict(server.grpc, [1.0], name="two", label="next")["spec"]["version"] == 2


def test_labels_are_replaced_and_outlive_their_version(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    two = models / "two"
    config = model_config.write(tmp_path / "models.config", Entry("two", two, "all {}"))
    with BridgeServer(tmp_path / "bridge", f"--model_config_file={config}") as server:
        server.wait_for_states("two", {2: "AVAILABLE", 1: "AVAILABLE"})
        reload(client, server, Entry("two", two, "all {}", {"old": 1, "new": 2, "also new": 2}))
        for label, version in (("old", 1), ("new", 2), ("also new", 2)):
            assert client.predict(server.grpc, [1.0], name="two", label=label)["spec"]["version"] == version
        assert client.predict(server.grpc, [1.0], name="two")["spec"]["version"] == 2
        reload(client, server, Entry("two", two, "all {}", {"old": 1}))
        unknown = client.predict(server.grpc, [1.0], name="two", label="new")
        assert unknown == {"code": INVALID, "details": "Unrecognized servable version label: new"}
        assert reload(client, server, Entry("two", two, "latest {}", {"old": 1}))["status"] == [0, ""]
        server.wait_for_states("two", {2: "AVAILABLE", 1: "END"})
        gone = client.predict(server.grpc, [1.0], name="two", label="old")
        assert gone == {"code": "NOT_FOUND", "details": "Servable not found for request: Specific(two, 1)"}


def test_another_base_path_brings_its_versions(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    flags = ("--model_name=m", f"--model_base_path={models}/a")
    with BridgeServer(tmp_path, *flags) as server:
        reload(client, server, Entry("m", models / "two", "all {}"))
        server.wait_for_states("m", {2: "AVAILABLE", 1: "AVAILABLE"})
        reload(client, server, Entry("m", models / "a", "all {}"))
        server.wait_for_states("m", {2: "END", 1: "AVAILABLE"})


@pytest.mark.parametrize("text", ["# a comment alone", "", "custom_model_config { type_url: 'a/b' }"])
def test_a_polled_file_that_lists_no_models_is_refused(
    tmp_path: Path, client: OfficialClient, models: Path, text: str
) -> None:
    config = model_config.write(tmp_path / "models.config", Entry("a", models / "a"))
    flags = (f"--model_config_file={config}", "--model_config_file_poll_wait_seconds=1")
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        config.write_text(text)
        server.wait_for_log("refused")
        assert server.states("a") == {1: "AVAILABLE"}
        model_config.write(config, Entry("a", models / "a"), Entry("b", models / "b"))
        server.wait_for_states("b", {1: "AVAILABLE"})
        assert client.predict(server.grpc, [1.0], name="a")["outputs"]["y"]["values"] == [1.5]


def test_a_file_that_is_not_polled_is_read_once(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    config = model_config.write(tmp_path / "models.config", Entry("a", models / "a"))
    with ModelServer(tmp_path / "drop-in", f"--model_config_file={config}") as server:
        model_config.write(config, Entry("b", models / "b"))
        export(models / "a", 5)
        wait_for(
            lambda: client.predict(server.grpc, [1.0], name="a")["outputs"]["y"]["values"] == [5.5], 20, "a new version"
        )
        assert client.predict(server.grpc, [1.0], name="b")["code"] == "NOT_FOUND"
        shutil.rmtree(models / "a" / "5")


def test_a_file_of_comments_starts_a_server_of_nothing(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    config = tmp_path / "models.config"
    config.write_text("# nothing yet")
    with ModelServer(tmp_path / "drop-in", f"--model_config_file={config}") as server:
        assert client.predict(server.grpc, [1.0], name="a")["code"] == "NOT_FOUND"
        answer = client.ask(server.grpc, "reload", config=model_config.text(Entry("a", models / "a")))
        assert answer["status"] == [0, ""]
        assert client.predict(server.grpc, [1.0], name="a")["outputs"]["y"]["values"] == [1.5]


def test_labels_at_the_start_need_the_flag(tmp_path: Path, client: OfficialClient, models: Path) -> None:
    config = model_config.write(tmp_path / "models.config", Entry("a", models / "a", labels={"stable": 1}))
    flags = ("--port=0", f"--grpc_socket_path={tmp_path}/socket", f"--model_config_file={config}")
    refused = model_server.run(tmp_path / "refused", *flags)
    sentence = f"{PRECONDITION}: {NOT_AVAILABLE.format(1, 'a')}"
    assert (refused.returncode, refused.stdout) == (255, f"Failed to start server. Error: {sentence}\n")
    allowed = (f"--model_config_file={config}", "--allow_version_labels_for_unavailable_models")
    with ModelServer(tmp_path / "allowed", *allowed) as server:
        assert client.predict(server.grpc, [1.0], name="a", label="stable")["spec"]["version"] == 1


def test_an_emptied_base_path_unloads_on_demand(tmp_path: Path, client: OfficialClient) -> None:
    """As the stock server does it, and the drop-in unless told otherwise."""
    export(tmp_path / "m", 1)
    with ModelServer(tmp_path / "drop-in", "--model_name=m", f"--model_base_path={tmp_path}/m") as server:
        shutil.rmtree(tmp_path / "m" / "1")
        gone = {"code": "NOT_FOUND", "details": "Servable not found for request: Latest(m)"}
        wait_for(lambda: client.predict(server.grpc, [1.0], name="m") == gone, 20, "the version is unloaded")
        ended = {"rows": [[1, 50, 0, ""]]}
        wait_for(lambda: client.ask(server.grpc, "status", spec={"name": "m"}) == ended, 20, "it has ended")


def test_one_look_only(tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "m", 1)
    flags = ("--model_name=m", f"--model_base_path={tmp_path}/m", "--file_system_poll_wait_seconds=0")
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        export(tmp_path / "m", 2)
        time.sleep(3)
        assert server.states("m") == {1: "AVAILABLE"}
