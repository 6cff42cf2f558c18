"""What operators change by `bridge labels` and `bridge models`: at once, over restarts, and without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import model_config
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

BRIDGE = str(Path(sys.executable).with_name("bridge"))


class Place(NamedTuple):
    """A server of the versions 1, 2 and 3 of `numbered`, by default the latest, from a config file."""

    server: BridgeServer
    config: Path
    base_path: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """The standard output of a `bridge` command, the standard error where it fails."""
        command = [BRIDGE, *arguments, f"--state_dir={self.server.state_dir}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == code, result.stderr
        return result.stderr if code else result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def model(self) -> Any:
        (model,) = self.json("models")["models"]
        return model

    def write(self, policy: str = "", **labels: int) -> None:
        model_config.write(self.config, Entry("numbered", self.base_path, policy, labels))


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "numbered"
    for version in (1, 2, 3):
        export(directory, version)
    return directory


@pytest.fixture
def place(tmp_path: Path, base_path: Path) -> Iterator[Place]:
    config = tmp_path / "models.config"
    place = Place(BridgeServer(tmp_path / "bridge", f"--model_config_file={config}"), config, base_path)
    place.write()
    with place.server:
        yield place


def answered(client: OfficialClient, place: Place, **spec: Any) -> int:
    """The version that answers."""
    answer = client.predict(place.server.grpc, [1.0], name="numbered", **spec)
    assert "spec" in answer, answer
    return int(answer["spec"]["version"])


def test_changes_take_effect_and_outlive_restarts(place: Place, client: OfficialClient) -> None:
    server = place.server
    assert answered(client, place) == 3
    refusal = place.run("labels", "set", "numbered", "stable", "2", code=1)
    assert "version 2 of model numbered, which is not currently available for inference" in refusal

    assert place.run("models", "set-policy", "numbered", "specific:1,2", "--reason=try") == (
        "Model numbered serves specific 1, 2.\n"
    )
    server.wait_for_states("numbered", {3: "END", 2: "AVAILABLE", 1: "AVAILABLE"})
    place.run("labels", "set", "numbered", "stable", "1")
    assert (answered(client, place), answered(client, place, label="stable")) == (2, 1)

    server.terminate()
    place.run("labels", "set", "numbered", "canary", "2")
    assert place.run("labels", "list").splitlines()[1:] == [
        "numbered\tcanary\t2\twaits",
        "numbered\tstable\t1\twaits",
    ]
    server.start()
    server.wait_for_states("numbered", {2: "AVAILABLE", 1: "AVAILABLE"})
    assert (answered(client, place), answered(client, place, label="stable")) == (2, 1)
    assert answered(client, place, label="canary") == 2
    assert len(server.events(action="config applied")) == 1

    server.terminate()
    place.write("all {}", best=3)
    server.start()
    wait_for(lambda: place.model()["available"] == [3, 2, 1], 20, "every version serves")
    assert (place.model()["labels"], answered(client, place, label="best")) == ({"best": 3}, 3)
    answer = client.predict(server.grpc, [1.0], name="numbered", label="stable")
    assert answer["details"] == "Unrecognized servable version label: stable"
    applied = server.events(action="config applied")
    assert len(applied) == 2
    (before,), (after,) = (applied[1][side]["models"].values() for side in ("before", "after"))
    assert (before["policy"], before["labels"]) == (
        {"specific": {"versions": [1, 2]}},
        {"canary": 2, "stable": 1},
    )
    assert (after["policy"], after["labels"]) == ({"all": {}}, {"best": 3})


def test_the_tables_of_a_running_server(place: Place, client: OfficialClient) -> None:
    wait_for(lambda: place.model()["available"] == [3], 10, "version 3 serves")
    answered(client, place)
    (version,) = place.json("versions", "numbered")["versions"]
    assert (version["state"], version["instances"], version["path"]) == (
        "AVAILABLE",
        ["embedded"],
        f"{place.base_path}/3",
    )
    (instance,) = place.json("instances")["instances"]
    assert (instance["name"], instance["state"], len(instance["copies"])) == ("embedded", "up", 1)
    assert place.server.request("GET", "/readyz", to=place.server.admin).json == {"status": "ready", "reasons": []}
    page = place.server.request("GET", "/metrics", to=place.server.admin).body.decode().splitlines()
    assert 'bridge_requests_total{api="grpc",call="Predict",code="OK"} 1.0' in page
    assert 'bridge_triton_calls_total{instance="embedded",leg="http",outcome="ok"} 1.0' in page
    assert 'bridge_model_versions{model="numbered",state="AVAILABLE"} 1.0' in page
    assert 'bridge_instance_copies{instance="embedded"} 1.0' in page
    assert "bridge_registry_backlog 0.0" in page
    place.server.triton.kill()
    wait_for(lambda: place.json("instances")["instances"][0]["state"] == "lost", 10, "the loss is recorded")
    wait_for(lambda: answered(client, place) == 3, 10, "service returns")
