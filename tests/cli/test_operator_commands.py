"""`bridge models|versions|labels|instances|events` against a running admin API and against the database alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bridge.cli.main import main
from bridge.registry import Registry, schema
from bridge.registry.database import sqlite_url
from bridge.registry.records import ModelSpec, Owner
from bridge.serving.routes import VersionState
from bridge.state_dir import StateDir
from tests.cli.state_place import StatePlace, live_server
from tests.console.admin_server import TEST

LATEST = {"latest": {"num_versions": 1}}


class Place(StatePlace):
    """A state directory with a model `half` whose version 2 is AVAILABLE, and the commands run on it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.url = sqlite_url(path / "bridge.db")
        schema.upgrade(self.url)
        with closing(Registry.open(self.url)) as registry:
            registry.put_model(ModelSpec("half", "/models/half", policy=LATEST), Owner.CONFIG, TEST)
            registry.record_version("half", 2, int(VersionState.AVAILABLE), path="/models/half/2", actor=TEST)
            registry.upsert_instance("embedded", "127.0.0.1:1", "127.0.0.1:2", "process 7", actor=TEST)


@pytest.fixture
def offline(tmp_path: Path) -> Place:
    return Place(tmp_path / "state")


@pytest.fixture
def online(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "state")
    with live_server(place.path) as server:
        server.plane.serving["half"] = {2}
        yield place


@pytest.fixture(params=["offline", "online"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["models"], ["half", "config", "latest", "2", "", "/models/half", ""]),
        (["models", "list"], ["half", "config", "latest", "2", "", "/models/half", ""]),
        (["models", "half"], ["half", "config", "latest", "2", "", "/models/half", ""]),
        (["instances"], ["embedded", "unknown", "127.0.0.1:1", "127.0.0.1:2", "process 7", "", ""]),
    ],
)
def test_listings(place: Place, arguments: list[str], line: list[str]) -> None:
    assert place.lines(*arguments) == [line]


def test_versions(place: Place) -> None:
    (line,) = place.lines("versions", "half")
    assert line[:3] + line[4:] == ["half", "2", "AVAILABLE", "", "/models/half/2", ""]
    (version,) = place.json("versions")["versions"]
    assert (version["model"], version["version"], version["state"]) == ("half", 2, "AVAILABLE")


def test_one_model(place: Place) -> None:
    assert place.run("models", "show", "half").stdout.splitlines() == [
        "model: half",
        "owner: config",
        "base path: /models/half",
        "platform: tensorflow",
        "policy: latest",
        "available: 2",
        "labels: ",
        "version 2: AVAILABLE /models/half/2",
    ]
    shown = place.json("models", "show", "half")
    assert (shown["model"]["policy"], [item["version"] for item in shown["versions"]]) == (LATEST, [2])


def test_a_label_from_begin_to_end(place: Place) -> None:
    assert place.lines("labels") == []
    assert (
        place.run("labels", "set", "half", "stable", "2").stdout == "Label stable of model half points at version 2.\n"
    )
    assert place.run("labels", "set", "half", "stable", "2").stdout.endswith(" (it was so before)\n")
    assert [line[:3] for line in place.lines("labels", "half")] == [["half", "stable", "2"]]
    assert [line[:3] for line in place.lines("labels")] == [["half", "stable", "2"]]
    assert place.json("labels", "remove", "half", "stable") == {"changed": True}
    assert place.json("labels") == {"labels": []}


def test_a_label_for_a_version_that_does_not_serve(offline: Place) -> None:
    """Without a server nobody knows what serves: the label waits."""
    offline.run("labels", "set", "half", "canary", "3")
    assert offline.lines("labels") == [["half", "canary", "3", "waits"]]


def test_a_label_for_a_version_that_does_not_serve_while_a_server_lives(online: Place) -> None:
    assert online.run("labels", "set", "half", "canary", "3", code=1).stderr == (
        "Error: Request to assign label to version 3 of model half, which is not currently available for inference\n"
    )
    online.run("labels", "set", "half", "stable", "2")
    assert online.lines("labels") == [["half", "stable", "2", "yes"]]


@pytest.mark.parametrize(
    ("text", "policy", "words"),
    [
        ("latest:3", {"latest": {"num_versions": 3}}, "latest 3"),
        ("all", {"all": {}}, "all"),
        ("specific:7,2", {"specific": {"versions": [2, 7]}}, "specific 2, 7"),
    ],
)
def test_policies(place: Place, text: str, policy: Any, words: str) -> None:
    assert place.run("models", "set-policy", "half", text).stdout == f"Model half serves {words}.\n"
    assert place.json("models", "set-policy", "half", text) == {"changed": False}
    (model,) = place.json("models")["models"]
    assert model["policy"] == policy
    assert place.lines("models")[0][2] == words


def test_events_say_who_and_why(place: Place) -> None:
    place.run("models", "set-policy", "half", "all", "--reason=größer\nist besser")
    place.run("labels", "set", "half", "stable", "2", "--reason=first")
    first, second = place.json("events", "--limit=2")["events"]
    assert (first["action"], second["action"], second["seq"]) == ("policy set", "label set", first["seq"] + 1)
    assert (" ".join(first["reason"].split()), second["reason"]) == ("größer ist besser", "first")
    assert place.json("events", f"--after={first['seq']}")["events"] == [second]
    assert [line[0] for line in place.lines("events", "--subject=model:half", "--action=policy set")] == [
        str(first["seq"])
    ]


@pytest.mark.parametrize("state_dir", ["before", "after"])
def test_options_stand_before_or_after_the_subcommand(offline: Place, tmp_path: Path, state_dir: str) -> None:
    option = [f"--state_dir={offline.path}"]
    arguments = ["labels", *option, "list", "half"] if state_dir == "before" else ["labels", "list", "half", *option]
    offline.run(*arguments, environment={"BRIDGE_STATE_DIR": str(tmp_path / "elsewhere")})


def test_the_innermost_option_counts(offline: Place) -> None:
    offline.run("labels", "--state_dir=/nowhere", "list", f"--state_dir={offline.path}")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["models", "show", "no"], "Model 'no' is not known."),
        (["models", "no"], "Model 'no' is not known."),
        (["versions", "no"], "Model 'no' is not known."),
        (["labels", "no"], "Model 'no' is not known."),
        (["labels", "remove", "half", "no"], "Model 'half' has no label 'no'."),
        (["models", "set-policy", "no", "all"], "Model 'no' is not known."),
        (["models", "--admin_url=localhost:1"], "'localhost:1' is not the URL of an admin API; write http://HOST:PORT"),
        (["models", "--admin_url=http://h:x"], "'http://h:x' is not the URL of an admin API: "),
    ],
)
def test_failures_are_one_sentence(place: Place, arguments: list[str], sentence: str) -> None:
    result = place.run(*arguments, code=1)
    assert result.stderr.startswith(f"Error: {sentence}")
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["models", "set-policy", "half", "newest"],
        ["models", "set-policy", "half", "latest:0"],
        ["labels", "set", "half", "stable"],
        ["labels", "set", "half", "stable", "two"],
        ["labels", "set", "half", "stable", "9223372036854775808"],
        ["events", "--limit=0"],
        ["versions", "a", "b"],
        ["nonsense"],
    ],
)
def test_usage_errors(offline: Place, arguments: list[str]) -> None:
    assert "Usage: " in offline.run(*arguments, code=2).stderr


def test_the_admin_url_wins_over_the_state_directory(online: Place, tmp_path: Path) -> None:
    record = StateDir(online.path).read_server()
    assert record is not None
    url = f"http://127.0.0.1:{record.ports['admin']}/"
    online.run("models", f"--admin_url={url}", environment={"BRIDGE_STATE_DIR": str(tmp_path / "elsewhere")})
    online.run("models", environment={"BRIDGE_STATE_DIR": str(tmp_path / "elsewhere"), "BRIDGE_ADMIN_URL": url})


def test_a_server_that_is_gone(offline: Place) -> None:
    assert offline.run("models", "--admin_url=http://127.0.0.1:1", code=1).stderr == (
        "Error: The admin API http://127.0.0.1:1 does not answer: Connection refused.\n"
    )


def test_a_live_server_without_an_admin_port(offline: Place) -> None:
    state = StateDir(offline.path)
    state.acquire()
    try:
        for command in (["models"], ["labels", "set", "half", "stable", "2"]):
            assert "has no admin port open" in offline.run(*command, code=1).stderr
    finally:
        state.release()


def test_no_database(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["models", f"--state_dir={tmp_path}"])
    assert (result.exit_code, result.stderr) == (1, f"Error: There is no database '{tmp_path}/bridge.db'.\n")
    assert list(tmp_path.iterdir()) == []


def test_an_old_database_is_not_touched(tmp_path: Path) -> None:
    schema.upgrade(sqlite_url(tmp_path / "bridge.db"), revision="0001")
    result = CliRunner().invoke(main, ["models", f"--state_dir={tmp_path}"])
    assert result.exit_code == 1
    assert "run `bridge db upgrade`" in result.stderr


def test_another_database(offline: Place, tmp_path: Path) -> None:
    arguments = ["models", "half", f"--database_url={offline.url}", f"--state_dir={tmp_path / 'elsewhere'}"]
    assert CliRunner().invoke(main, arguments).exit_code == 0


def test_a_history_with_a_key(offline: Place, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    offline.run("labels", "set", "half", "a", "2", f"--audit_key_file={key}")
    assert "--audit_key_file" in offline.run("labels", "set", "half", "b", "2", code=1).stderr
    offline.run("labels", "set", "half", "b", "2", environment={"BRIDGE_AUDIT_KEY_FILE": str(key)})
    with closing(Registry.open(offline.url, audit_key=b"secret")) as registry:
        assert registry.labels("half") == {"a": 2, "b": 2}


def test_control_characters_are_shown_not_sent(offline: Place) -> None:
    with closing(Registry.open(offline.url)) as registry:
        registry.put_model(ModelSpec("a\x1b[31m\tb\n", "/models", policy=LATEST), Owner.CONFIG, TEST)
    assert offline.lines("models")[0][0] == r"a\x1b[31m\tb\n"
    assert offline.json("models", "a\x1b[31m\tb\n")["models"][0]["name"] == "a\x1b[31m\tb\n"


def test_asking_a_server_imports_no_database(online: Place) -> None:
    record = StateDir(online.path).read_server()
    assert record is not None
    script = (
        "import sys; from bridge.cli.main import main; main(['models', '--json'], standalone_mode=False); "
        "sys.exit(bool({'sqlalchemy', 'grpc', 'starlette', 'rich'} & sys.modules.keys()))"
    )
    command = [sys.executable, "-c", script]
    environment = {"BRIDGE_STATE_DIR": str(online.path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["models"][0]["name"] == "half"


def test_a_vmodel_from_begin_to_end(place: Place) -> None:
    assert place.lines("vmodels") == []
    described = ["--type=tensorflow", "--path=m1", "--auto-delete", "--owner=ops"]
    first = place.run("vmodels", "set", "v", "a", *described, "--reason=first")
    assert first.stdout == "The target of vmodel v is a.\n"
    assert place.run("vmodels", "set", "v", "a", *described).stdout.endswith(" (it was so before)\n")
    assert place.lines("vmodels") == [["v", "DEFINED", "a", "a", "ops", ""]]
    [line] = place.lines("models", "registered")
    assert (line[:5], line[6]) == (["a", "", "tensorflow", "m1", ""], "")
    assert place.json("models", "registered", "a")["registered_models"][0]["auto_delete"]
    assert "model b not found" in place.run("models", "registered", "b", code=1).stderr
    shown = place.run("vmodels", "show", "v").stdout.splitlines()
    assert shown[:4] == ["vmodel: v", "owner: ops", "state: DEFINED", "active: a"]
    assert place.json("vmodels", "show", "v")["vmodel"]["target"] == "a"
    assert place.json("vmodels", "set", "v", "b", "--type=tensorflow", "--expected-target=a")["changed"]
    assert place.run("vmodels", "delete", "v").stdout == "There is no vmodel v.\n"
    assert place.run("vmodels", "delete", "v").stdout.endswith(" (it was so before)\n")
    story = [(event["action"], event["reason"]) for event in place.json("events", "--subject=vmodel:v")["events"]]
    assert story == [("vmodel created", "first"), ("vmodel promoted", ""), ("vmodel deleted", "")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "v"], "vmodel v not found"),
        (["set", "v", "a"], "Target model a not found"),
        (["set", "v", "a", "--path=m1"], "Must provide non-empty model type string"),
        (["set", "v", "a", "--type=tensorflow", "--update-only"], "vmodel v not found"),
        (["set", "v", "a", "--type=tensorflow", "--expected-target=b"], "vmodel v not found"),
    ],
)
def test_refused_vmodels(place: Place, arguments: list[str], sentence: str) -> None:
    assert sentence in place.run("vmodels", *arguments, code=1).stderr
    assert place.lines("vmodels") == []
