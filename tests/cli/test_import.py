"""`bridge import modelmesh` on what etcdctl prints."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bridge.cli.import_ import import_
from bridge.registry import Registry
from bridge.registry.database import sqlite_url
from bridge.registry.records import ModelInfo
from bridge.state_dir import StateDir

ROOT = "modelmesh-serving/mm/modelmesh-serving"
KEY = '{"storage_key":"s","disk_size_bytes":7}'
MODEL = {
    "type": "tensorflow",
    "encKey": KEY,
    "mPath": "m/1",
    "autoDel": True,
    "refs": 1,
    "lu": 1_600_000_000_000,
    "instanceIds": {"a": 1},
    "failedIn": {"b": 2},
}
DUMP: dict[str, Any] = {
    f"{ROOT}/registry/m__1": MODEL,
    f"{ROOT}/registry/a/registry/x": {"type": "onnx"},
    f"{ROOT}/registry/m__2": {"type": "tensorflow", "mPath": "m/2"},
    f"{ROOT}/vmodels/m": {"o": "isvc", "amid": "m__1", "tmid": "m__2", "failed": True},
    f"{ROOT}/vmodels/still/registry/": {"amid": "m__1", "tmid": "m__1"},
    f"{ROOT}/vmodels/dangling": {"amid": "gone", "tmid": "m__1"},
    f"{ROOT}/instances/abc": {"cap": 1},
    f"{ROOT}/leaderLatch/x": {},
}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def dump(path: Path, entries: dict[str, Any]) -> Path:
    pairs = [{"key": encoded(key), "value": encoded(json.dumps(value)), "version": 1} for key, value in entries.items()]
    path.write_text(json.dumps({"header": {"revision": 9}, "kvs": pairs, "count": len(pairs)}))
    return path


def call(state: Path, file: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(import_, [f"--state_dir={state}", "modelmesh", str(file), *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_an_import(tmp_path: Path) -> None:
    state, file = tmp_path / "state", dump(tmp_path / "dump.json", DUMP)
    assert call(state, file).splitlines() == [
        "3 models and 2 vmodels are new; 0 were there already.",
        "vmodel dangling is left out: its models are not there.",
        "2 other keys are left out:",
        f"  {ROOT}/instances/abc",
        f"  {ROOT}/leaderLatch/x",
    ]
    with closing(Registry.open(sqlite_url(state / "bridge.db"))) as registry:
        models = {model.id: model for model in registry.registered_models()}
        assert models.keys() == {"m__1", "m__2", "a/registry/x"}
        first = models["m__1"]
        assert (first.info, first.auto_delete) == (ModelInfo("tensorflow", "m/1", KEY), True)
        assert (first.last_used_at, first.failures) == (1_600_000_000_000_000, ())
        vmodels = {vmodel.id: vmodel for vmodel in registry.vmodels()}
        assert vmodels.keys() == {"m", "still/registry/"}
        moving = vmodels["m"]
        assert (moving.owner, moving.active, moving.target, moving.target_failed) == ("isvc", "m__1", "m__2", False)
        events = [event for event in registry.events() if event.subject != "server"]
        subjects = ["model:m__1", "model:a/registry/x", "model:m__2", "vmodel:m", "vmodel:still/registry/"]
        assert [event.subject for event in events] == subjects
        assert {event.reason for event in events} == {"import of dump.json"}


def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    state, file = tmp_path / "state", dump(tmp_path / "dump.json", DUMP)
    call(state, file)
    again = json.loads(call(state, file, "--json"))
    assert (again["models"], again["vmodels"], again["unchanged"]) == ([], [], 5)
    with closing(Registry.open(sqlite_url(state / "bridge.db"))) as registry:
        assert len([event for event in registry.events() if event.subject != "server"]) == 5


CONFLICTS = [
    ({f"{ROOT}/registry/m__1": {**MODEL, "mPath": "other"}}, "Model m__1 already exists with different attribute"),
    (
        {f"{ROOT}/vmodels/m": {"o": "other", "amid": "m__1", "tmid": "m__2"}},
        "vmodel m already exists with other models",
    ),
    ({f"{ROOT}/registry/new": {"mPath": "p"}}, "Must provide non-empty model type string"),
]


@pytest.mark.parametrize(("entries", "sentence"), CONFLICTS)
def test_all_or_nothing(tmp_path: Path, entries: dict[str, Any], sentence: str) -> None:
    state = tmp_path / "state"
    call(state, dump(tmp_path / "dump.json", DUMP))
    added = {f"{ROOT}/registry/added": {"type": "tensorflow"}, **entries}
    assert sentence in call(state, dump(tmp_path / "other.json", added), code=1)
    with closing(Registry.open(sqlite_url(state / "bridge.db"))) as registry:
        assert registry.registered_model("added") is None


MALFORMED = [
    ("{", "The dump is no JSON"),
    ("[]", "it has no `kvs`"),
    ('{"kvs": [{"key": "%"}]}', "Entry 0 of `kvs` has no key and value in base64."),
    ('{"kvs": [7]}', "Entry 0 of `kvs` has no key and value in base64."),
    (
        json.dumps({"kvs": [{"key": encoded("x/registry/m"), "value": encoded("[]")}]}),
        "The value of key 'x/registry/m' is no JSON object.",
    ),
    (
        json.dumps({"kvs": [{"key": encoded("x/registry/m"), "value": encoded('{"type": 7}')}]}),
        "`type` in the value of key 'x/registry/m' is no str.",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), MALFORMED)
def test_malformed_dumps(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "dump.json"
    file.write_text(text)
    assert sentence in call(tmp_path / "state", file, code=1)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory." in call(tmp_path / "state", tmp_path / "nothing", code=1)


def test_an_empty_prefix(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text('{"header": {}}')
    assert call(tmp_path / "state", file) == "0 models and 0 vmodels are new; 0 were there already.\n"


def test_a_living_server_is_left_alone(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.acquire()
    try:
        assert "is in use by process" in call(state.path, dump(tmp_path / "dump.json", DUMP), code=1)
    finally:
        state.release()
