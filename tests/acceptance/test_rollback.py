"""Rollbacks by command on a real server, under clients that never pause, each test with models of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import model_config
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

BRIDGE = str(Path(sys.executable).with_name("bridge"))
MODELS = ("newest", "sourceless", "changed", "dropped", "labelled", "policed")


class Place:
    """A server of version 1 of every model, from a configuration file that is polled."""

    def __init__(self, directory: Path) -> None:
        self.models = directory / "models"
        self.config = directory / "models.config"
        for model in MODELS:
            export(self.models / model, 1)
        self.write(*MODELS)
        self.server = BridgeServer(
            directory / "bridge",
            f"--model_config_file={self.config}",
            "--model_config_file_poll_wait_seconds=1",
            f"--model_root={directory / 'registered'}",
        )

    def write(self, *models: str) -> None:
        entries = [Entry(model, self.models / model, _POLICIES.get(model, "")) for model in models]
        staged = self.config.with_name("staged")
        model_config.write(staged, *entries).rename(self.config)

    def export(self, model: str, version: int) -> Path:
        """A new version, there as a whole at once."""
        staged = export(self.models / "staged", version)
        return staged.rename(self.models / model / str(version))

    def serve(self, model: str, version: int) -> None:
        """Drop a version, and wait until it took over."""
        self.export(model, version)
        self.wait_live(model, version)

    def serve_also(self, model: str, version: int) -> None:
        """Drop a version, and wait until it serves beside the first."""
        self.export(model, version)
        self.wait_live(model, 1, version)

    def wait_unloaded(self, model: str, version: int) -> None:
        """Wait until a version has left Triton's model repository, too."""
        repository = self.server.state_dir / "repository"
        wait_for(lambda: not list(repository.glob(f"tfs.*.{model}.{version}")), 20, f"{model} {version} is unloaded")

    def wait_live(self, model: str, *versions: int) -> None:
        wait_for(lambda: self.live(model) == list(versions), 30, f"{model} serves {versions}")

    def live(self, model: str) -> list[int]:
        return sorted(version for version, state in self.server.states(model).items() if state == "AVAILABLE")

    def run(self, *arguments: str, code: int = 0) -> str:
        """The standard output of a `bridge` command, the standard error where it fails."""
        command = [BRIDGE, *arguments, f"--state_dir={self.server.state_dir}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == code, (result.stdout, result.stderr)
        return result.stderr if code else result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def kept(self, model: str) -> list[Path]:
        """Where the contents are that are kept of a model."""
        return [path.parent for path in (self.server.state_dir / "kept" / model).glob("[0-9]*/kept.json")]

    def wait_kept(self, model: str, *versions: int) -> None:
        def found() -> list[int]:
            return sorted(int(path.name.partition(".")[0]) for path in self.kept(model))

        wait_for(lambda: found() == list(versions), 20, f"{versions} of {model} are kept")

    def model(self, name: str) -> Any:
        (model,) = self.json("models", name)["models"]
        return model


_POLICIES = {"labelled": "specific { versions: 1 versions: 2 }", "policed": "specific { versions: 1 }"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("rollback"))
    with place.server:
        yield place


def test_an_older_version_is_held_until_it_is_unpinned(place: Place, client: OfficialClient) -> None:
    place.serve("newest", 2)
    place.serve("newest", 3)
    with client.loop(place.server.grpc, name="newest") as loop:
        preview = place.json("rollback", "newest", "--dry-run")["rollback"]
        assert (preview["subject"], preview["refusal"]) == ("model:newest", "")
        assert {"path": "versions", "before": [3], "after": [2]} in preview["changes"]
        assert place.live("newest") == [3]
        done = place.json("rollback", "newest", "--reason=v3 answers nonsense")
        assert done["changed"]
        loop.wait_for_version(2)
        place.wait_live("newest", 2)
    assert loop.clean
    assert place.model("newest")["pinned"] == [2]
    assert "(pinned to 2 by a rollback)" in place.run("models", "newest")
    told = place.server.events(subject="model:newest", action="rolled back")[-1]
    assert told["reason"] == "v3 answers nonsense"
    assert (told["before"]["versions"], told["after"]["versions"]) == ([3], [2])

    place.export("newest", 4)
    place.server.terminate()
    place.server.start()
    assert place.live("newest") == [2]
    with client.loop(place.server.grpc, name="newest") as loop:
        assert place.run("models", "unpin", "newest") == "Model newest follows its policy.\n"
        loop.wait_for_version(4)
    assert loop.clean
    actions = [event["action"] for event in place.server.events(subject="model:newest")]
    assert [action for action in actions if "pinned" in action] == ["rollback pinned", "rollback unpinned"]


def test_kept_contents_serve_when_the_source_is_gone(place: Place, client: OfficialClient) -> None:
    place.serve("sourceless", 2)
    place.serve("sourceless", 3)
    place.wait_kept("sourceless", 1, 2, 3)
    for version in (1, 2):
        shutil.rmtree(place.models / "sourceless" / str(version))
    with client.loop(place.server.grpc, name="sourceless") as loop:
        assert place.json("rollback", "model:sourceless")["changed"]
        loop.wait_for_version(2)
        assert place.json("rollback", "model:sourceless")["rollback"]["changes"][0]["after"] == [3]
        loop.wait_for_version(3)
    assert loop.clean


def test_files_that_changed_or_are_gone_are_refused(place: Place, client: OfficialClient) -> None:
    place.serve("changed", 2)
    place.wait_kept("changed", 1, 2)
    place.wait_unloaded("changed", 1)
    for kept in place.kept("changed"):
        wait_for(lambda kept=kept: _removed(kept), 10, f"{kept} is gone")  # type: ignore[misc]
    source = place.models / "changed" / "1"
    with client.loop(place.server.grpc, name="changed") as loop:
        (source / "saved_model.pb").rename(source / "saved_model.pbtxt")
        refused = place.run("rollback", "changed", code=1)
        assert f"the files at {source} were changed" in refused
        assert "the content of then is not kept" in refused
        shutil.rmtree(source)
        refused = place.run("rollback", "changed", "--dry-run", code=1)
        assert f"Version 1 of model 'changed' cannot be put back: its files at {source} are gone" in refused
        assert place.live("changed") == [2]
    assert loop.clean
    assert place.model("changed")["pinned"] is None


def test_a_model_that_a_reload_dropped_comes_back(place: Place, client: OfficialClient) -> None:
    place.write(*(model for model in MODELS if model != "dropped"))
    place.wait_live("dropped")
    shutil.rmtree(place.models / "dropped")
    done = place.json("rollback", "dropped")
    assert [change["path"] for change in done["rollback"]["changes"]] == ["versions", "model", "pin"]
    assert client.predict(place.server.grpc, [1.0], name="dropped")["spec"]["version"] == 1
    assert place.model("dropped")["owner"] == "config"
    place.write("dropped", *(model for model in MODELS if model != "dropped"))
    wait_for(lambda: place.model("dropped")["pinned"] is None, 20, "the pin of dropped is lifted")
    assert place.live("dropped") == [1]


def test_a_label_is_set_back(place: Place, client: OfficialClient) -> None:
    place.serve_also("labelled", 2)
    place.run("labels", "set", "labelled", "stable", "1")
    place.run("labels", "set", "labelled", "stable", "2")
    with client.loop(place.server.grpc, name="labelled", label="stable") as loop:
        loop.wait_for_version(2)
        assert "label:labelled/stable is as it was" in place.run("rollback", "label:labelled/stable")
        loop.wait_for_version(1)
        assert place.json("rollback", "labelled/stable")["rollback"]["changes"] == [
            {"path": "version", "before": 1, "after": 2}
        ]
        loop.wait_for_version(2)
    assert loop.clean
    seq = place.server.events(subject="label:labelled/stable")[0]["seq"]
    place.run("models", "set-policy", "labelled", "specific:2")
    place.wait_live("labelled", 2)
    refused = place.run("rollback", "label:labelled/stable", f"--to=#{seq}", code=1)
    assert "version 1 of model 'labelled', which it meant, does not serve" in refused


def test_a_policy_is_set_back(place: Place, client: OfficialClient) -> None:
    place.export("policed", 2)
    with client.loop(place.server.grpc, name="policed") as loop:
        place.run("models", "set-policy", "policed", "latest")
        loop.wait_for_version(2)
        place.wait_live("policed", 2)
        done = place.json("rollback", "policed")
        paths = {change["path"]: change["after"] for change in done["rollback"]["changes"]}
        assert (paths["versions"], paths["policy"]) == ([1], {"specific": {"versions": [1]}})
        loop.wait_for_version(1)
        assert place.json("rollback", "policed")["changed"]
        loop.wait_for_version(2)
    assert loop.clean
    assert place.model("policed")["policy"] == {"latest": {"num_versions": 1}}


def test_a_vmodel_is_set_back(place: Place, client: OfficialClient) -> None:
    registered = place.models.parent / "registered"
    for version in (1, 2):
        export(registered / f"m{version}", version)
    with ModelMeshClient(place.server.modelmesh) as mesh:
        for version in (1, 2):
            info = {"type": "tensorflow", "path": f"m{version}"}
            mesh(
                "setVModel", vModelId="v", targetModelId=f"r{version}", modelInfo=info, autoDeleteTargetModel=True,
                loadNow=True, sync=True,
            )  # fmt: skip
        assert mesh.vmodel("v")[1] == "r2"
        done = place.json("rollback", "vmodel:v", "--reason=worse")
        assert {change["path"]: change["after"] for change in done["rollback"]["changes"]}["active"] == "r1"
        assert mesh.vmodel("v")[1] == "r1"
        assert place.server.events(subject="vmodel:v", action="rolled back")[-1]["reason"] == "worse"
        assert place.json("rollback", "v")["changed"]
        assert mesh.vmodel("v")[1] == "r2"
        source = registered / "m1" / "1"
        (source / "more").write_bytes(b"more")
        refused = place.run("rollback", "v", code=1)
        assert refused.endswith(
            f"'r1', which the vmodel meant, cannot be put back: the files at {source} were changed.\n"
        )
        shutil.rmtree(registered / "m1")
        refused = place.run("rollback", "v", code=1)
        assert refused.endswith(f"cannot be put back: its files at {source} are gone.\n")
        assert mesh.vmodel("v")[1:] == ("r2", "r2")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody"], "The history knows nothing called 'nobody'."),
        (["model:nobody"], "The history knows no model 'nobody'."),
        (["newest", "--to=#999999"], "There is no event #999999."),
        (["newest", "--to=#x"], "'#x' names no event; write #57, or a time."),
        (["newest", "--to=yesterday"], "'yesterday' is not a time"),
        (["newest", "--to=2999-01-01"], "is in the future"),
        (["newest", "--to=2001-01-01"], "The history begins at"),
        (["newest", "--to=#1"], "Model 'newest' served nothing at event #1"),
        (["instance:embedded"], "instance:embedded cannot be rolled back; only models, labels and vmodels can."),
    ],
)
def test_bad_input_is_one_sentence(place: Place, arguments: list[str], sentence: str) -> None:
    error = place.run("rollback", *arguments, code=1)
    assert sentence in error
    assert error.count("\n") == 1


def _removed(directory: Path) -> bool:
    """Whether a directory is gone that the server may be writing to."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()
