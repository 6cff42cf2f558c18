"""What cannot be served is said once, in one sentence with its path, and everything else keeps serving."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.conftest import Start
from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

POLLS = 4
"""How many polls, of one second each, a sentence has to stay single."""


class Place(NamedTuple):
    server: BridgeServer
    models: Path


SENTENCES = {
    "missing": "Could not find base path {path} for servable missing: No such file or directory",
    "file": "Could not find base path {path} for servable file: Not a directory",
    "empty": "No versions of servable empty found under base path {path}. "
    "Did you forget to name your leaf directory as a number (eg. '/1/')?",
    "junk": "No versions of servable junk found under base path {path}. "
    "Did you forget to name your leaf directory as a number (eg. '/1/')?",
    "truncated": "{path}/1 is not offered: it has a truncated or damaged saved_model.pb.",
    "half_copied": "{path}/1 is not offered: it has 5 of the 12 bytes of variables/variables.data-00000-of-00001.",
    "no_index": "{path}/1 is not offered: it lacks variables/variables.index.",
    "no_model": "{path}/1 is not offered: it has no saved_model.pb.",
    "plain_file": "{path}/1 is not offered: it is not a directory.",
    "twice": "{path}/01 is not offered: {path}/1 is version 1 too.",
}
"""What the log says of each model's source, as the polls find it; `{path}` is the base path."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("bad")
    models = directory / "models"
    export(models / "good", 1)
    _make_bad_sources(models)
    entries = [Entry(model, models / model) for model in ("good", *SENTENCES)]
    config = model_config.write(directory / "models.config", *entries)
    with BridgeServer(directory / "bridge", f"--model_config_file={config}") as server:
        yield Place(server, models)


def _make_bad_sources(models: Path) -> None:
    whole = models / "good" / "1"
    (models / "file").write_text("no directory")
    for name in ("v1", "1.0", "12abc", "assets", "1_tmp"):
        (models / "junk" / name).mkdir(parents=True)
    (models / "empty").mkdir()
    (models / "plain_file").mkdir()
    (models / "plain_file" / "1").write_text("no directory")
    (models / "no_model" / "1").mkdir(parents=True)
    for model in ("truncated", "half_copied", "no_index", "twice"):
        _copy(whole, models / model / "1")
    _copy(whole, models / "twice" / "01")
    _cut(models / "truncated" / "1" / "saved_model.pb", 1000)
    _cut(models / "half_copied" / "1" / "variables" / "variables.data-00000-of-00001", 5)
    (models / "no_index" / "1" / "variables" / "variables.index").unlink()


def _copy(source: Path, destination: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            target = destination / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize("model", SENTENCES)
def test_a_bad_source_is_named_once(place: Place, client: OfficialClient, model: str) -> None:
    sentence = SENTENCES[model].format(path=place.models / model)
    place.server.wait_for_log(sentence)
    _let_polls_pass(place.server)
    lines = place.server.log_lines(sentence)
    assert len(lines) == 1, lines
    assert " WARNING " in lines[0]
    assert lines[0].endswith(sentence)
    [problems] = [
        item["problems"] for item in place.server.get_json("/api/v1/models")["models"] if item["name"] == model
    ]
    assert sentence in str(problems)
    events = [event for event in place.server.events(subject=f"model:{model}") if sentence in str(event["after"])]
    assert len(events) == 1


def test_everything_else_serves(place: Place, client: OfficialClient) -> None:
    assert client.predict(place.server.grpc, [1.0], name="good")["outputs"]["y"]["values"] == [1.5]
    assert client.predict(place.server.grpc, [1.0], name="twice")["outputs"]["y"]["values"] == [1.5]
    answer = client.predict(place.server.grpc, [1.0], name="truncated")
    assert answer == {"code": "NOT_FOUND", "details": "Servable not found for request: Latest(truncated)"}
    assert place.server.get_json("/readyz")["status"] == "ready"


def test_each_change_is_said_once_and_a_repaired_source_is_served(place: Place, client: OfficialClient) -> None:
    base_path = place.models / "missing"
    base_path.mkdir()
    empty = f"No versions of servable missing found under base path {base_path}."
    place.server.wait_for_log(empty)
    base_path.rmdir()
    missing = f"Could not find base path {base_path} for servable missing"
    wait_for(lambda: len(place.server.log_lines(missing)) == 2, 20, "the base path is missing again")
    export(base_path, 7)
    place.server.wait_for_states("missing", {7: "AVAILABLE"})
    assert len(place.server.log_lines(empty)) == 1
    assert len(place.server.log_lines(missing)) == 2
    [problems] = [
        item["problems"] for item in place.server.get_json("/api/v1/models")["models"] if item["name"] == "missing"
    ]
    assert not problems


def test_a_saved_model_that_cannot_be_served_says_why(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    """It parses and is whole, so it is tried; GetModelStatus has the reason."""
    savedmodels.make("unstable", tmp_path / "numbered" / "1")
    server = start("--max_num_load_retries=0")
    [row] = client.ask(server.grpc, "status", spec={"name": "numbered"})["rows"]
    assert row[:3] == [1, 50, 3]
    assert "the init op refuses" in row[3]
    assert len(server.log_lines("numbered version 1", "the init op refuses")) <= 2
    export(tmp_path / "numbered", 2)
    server.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})


TYPOS = {
    "no such field": ('model_config_list {{ config {{ nmae: "numbered" base_path: "{models}" }} }}', "nmae"),
    "open bracket": ('model_config_list {{ config {{ name: "numbered"', ""),
    "relative path": (
        'model_config_list {{ config {{ name: "numbered" base_path: "models" model_platform: "tensorflow" }} }}',
        "Expected model numbered to have an absolute path or URI; got base_path()=models",
    ),
}


@pytest.mark.parametrize("typo", TYPOS)
def test_a_config_file_with_a_typo_does_not_start(start: Start, tmp_path: Path, typo: str) -> None:
    text, sentence = TYPOS[typo]
    config = tmp_path / "models.config"
    config.write_text(text.format(models=tmp_path))
    server = start(f"--model_config_file={config}", ready=False)
    assert server.wait() == 1
    said = [line for line in server.log_lines("bridge serve:") if str(config) in line]
    assert len(said) == 1, server.tail()
    assert sentence in said[0]
    assert not server.processes()


def test_a_typo_in_a_config_file_leaves_what_was_served(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    config = model_config.write(tmp_path / "models.config", Entry("numbered", tmp_path / "numbered"))
    server = start(f"--model_config_file={config}")
    assert server.terminate() == 0
    config.write_text(config.read_text().replace("base_path", "base_paht"))
    server.start()
    assert client.predict(server.grpc, [1.0], name="numbered")["outputs"]["y"]["values"] == [1.5]
    assert len(server.log_lines("the last good one stays", str(config))) == 1
    assert [event["action"] for event in server.events(action="config rejected")] == ["config rejected"]


def test_a_typo_in_a_polled_config_file_is_said_once(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    for model in ("numbered", "second"):
        export(tmp_path / model, 1)
    entries = [Entry(model, tmp_path / model) for model in ("numbered", "second")]
    config = model_config.write(tmp_path / "models.config", entries[0])
    good = config.read_text()
    server = start(f"--model_config_file={config}", "--model_config_file_poll_wait_seconds=1")
    with client.loop(server.grpc, name="numbered") as loop:
        config.write_text(good.replace("base_path", "base_paht"))
        server.wait_for_log("the last good one stays", str(config))
        _let_polls_pass(server)
        assert len(server.log_lines("the last good one stays")) == 1
        model_config.write(config, *entries)
        server.wait_for_states("second", {1: "AVAILABLE"})
        loop.wait_for_answers(20)
    assert loop.clean, loop.tally


def _let_polls_pass(server: BridgeServer) -> None:
    """Wait until the server has looked several times since its last line; it looks once a second."""
    ready = server.log.stat().st_mtime
    wait_for(lambda: time.time() > ready + POLLS, 2 * POLLS, "several polls have passed")
