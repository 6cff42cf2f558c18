"""Every field of a FileSystemStoragePathSourceConfig and its effect, from the file to what serves."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle import source_config
from bridge.lifecycle.configuration import given
from bridge.lifecycle.source_config import SourceRules, check_versions
from bridge.registry.records import ModelSpec
from bridge.settings import Settings
from tests.lifecycle.place import Place, running
from tests.serving import waiting

KIND = "[type.googleapis.com/tensorflow.serving.FileSystemStoragePathSourceConfig]"


def custom(fields: str) -> str:
    return f"custom_model_config {{ {KIND} {{ {fields} }} }}"


def servable(name: str, base_path: str, policy: str = "") -> str:
    chosen = f" servable_version_policy {{ {policy} }}" if policy else ""
    return f'servables {{ servable_name: "{name}" base_path: "{base_path}"{chosen} }}'


def write(tmp_path: Path, fields: str) -> Settings:
    file = tmp_path / "source.config"
    file.write_text(custom(fields))
    return Settings(model_config_file=str(file))


@pytest.mark.parametrize(
    ("fields", "models"),
    [
        ("", []),
        ('servable_name: "old" base_path: "/old"', [("old", "/old", {"latest": {"num_versions": 1}})]),
        (servable("a", "/a"), [("a", "/a", {"latest": {"num_versions": 1}})]),
        (servable("a", "/a", "latest { num_versions: 3 }"), [("a", "/a", {"latest": {"num_versions": 3}})]),
        (servable("a", "/a", "latest {}"), [("a", "/a", {"latest": {"num_versions": 1}})]),
        (servable("a", "/a", "all {}"), [("a", "/a", {"all": {}})]),
        (
            servable("a", "/a", "specific { versions: 7 versions: -1 }"),
            [("a", "/a", {"specific": {"versions": [-1, 7]}})],
        ),
        (
            servable("b", "s3://bucket/b") + ' servable_name: "old" base_path: "/old"',
            [("old", "/old", {"latest": {"num_versions": 1}}), ("b", "s3://bucket/b", {"latest": {"num_versions": 1}})],
        ),
    ],
)
def test_servables(tmp_path: Path, fields: str, models: list[tuple[str, str, Any]]) -> None:
    configuration = given(write(tmp_path, fields))
    assert configuration is not None
    assert configuration.error is None
    assert [(model.name, model.base_path, model.policy) for model in configuration.models] == models


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (custom(servable("a", "/a") + servable("a", "/b")), "Illegal to list model a multiple times in config list"),
        (custom(servable("a", "a")), "Expected model a to have an absolute path or URI; got base_path()=a"),
        (
            "custom_model_config { [type.googleapis.com/tensorflow.serving.ModelConfig] { name: 'a' } }",
            "ModelServer does not yet support custom model config other than "
            "tensorflow.serving.FileSystemStoragePathSourceConfig; got "
            "'type.googleapis.com/tensorflow.serving.ModelConfig'",
        ),
    ],
)
def test_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "source.config"
    file.write_text(text)
    configuration = given(Settings(model_config_file=str(file)))
    assert configuration is not None
    assert configuration.error is not None
    assert (configuration.error.code, sentence in configuration.error.message) == (Code.INVALID_ARGUMENT, True)


@pytest.mark.parametrize(
    ("fields", "poll_wait", "keeps", "fails"),
    [
        ("", 0, False, False),
        ("file_system_poll_wait_seconds: 5", 5, False, False),
        ("file_system_poll_wait_seconds: -1", -1, False, False),
        ("fail_if_zero_versions_at_startup: true", 0, False, True),
        ("servable_versions_always_present: true", 0, True, True),
    ],
)
def test_rules(fields: str, poll_wait: float, keeps: bool, fails: bool) -> None:
    settings = Settings(file_system_poll_wait_seconds=77, object_store_poll_wait_seconds=9)
    assert source_config.rules(settings, custom(fields)) == SourceRules(poll_wait, keeps, fails, 9)


@pytest.mark.parametrize("text", ["", "model_config_list {}", "custom_model_config {}", "no text format {"])
def test_rules_of_the_settings(text: str) -> None:
    settings = Settings(
        file_system_poll_wait_seconds=7,
        servable_versions_always_present=False,
        fail_if_zero_versions_at_startup=True,
        object_store_poll_wait_seconds=9,
    )
    assert source_config.rules(settings, text) == SourceRules(7, False, True, 9)


@pytest.mark.parametrize(
    ("poll_wait", "base_path", "least", "most"),
    [(1, "/m", 1, 1), (1, "file:///m", 1, 1), (1, "s3://b/m", 27, 33), (60, "s3://b/m", 60, 60), (1, "gs://b", 27, 33)],
)
def test_pauses(poll_wait: float, base_path: str, least: float, most: float) -> None:
    rules = SourceRules(poll_wait, True, store_poll_wait=30)
    for _ in range(50):
        pause = rules.pause(base_path)
        assert pause is not None
        assert least <= pause <= most


@pytest.mark.parametrize("poll_wait", [0, -1])
@pytest.mark.parametrize("base_path", ["/m", "s3://b/m"])
def test_no_further_look(poll_wait: float, base_path: str) -> None:
    assert SourceRules(poll_wait, True, store_poll_wait=30).pause(base_path) is None


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ({}, "Unable to find a numerical version path for servable m at: {path}/empty"),
        ({"specific": {"versions": [7]}}, "Unable to find a numerical version path for servable m at: {path}/full"),
        ({"all": {}}, ""),
    ],
)
def test_versions_at_startup(tmp_path: Path, policy: Any, sentence: str) -> None:
    place = tmp_path / ("full" if policy else "empty")
    place.mkdir()
    if policy:
        (place / "3").mkdir()
        (place / "3" / "export.meta").touch()
    models = [ModelSpec("m", str(place), policy=policy or {"latest": {"num_versions": 1}})]
    if not sentence:
        check_versions(models)
        return
    with pytest.raises(BridgeError) as caught:
        check_versions(models)
    assert (caught.value.code, caught.value.message) == (Code.NOT_FOUND, sentence.format(path=tmp_path))


def test_a_missing_base_path_at_startup(tmp_path: Path) -> None:
    with pytest.raises(BridgeError) as caught:
        check_versions([ModelSpec("m", str(tmp_path / "none"))])
    assert caught.value.message == f"Could not find base path {tmp_path}/none for servable m"


# What serves


async def started(place: Place, tmp_path: Path, fields: str) -> None:
    write(tmp_path, fields)
    await place.configurator.start()


def served(place: Place) -> dict[int, str]:
    return place.states("m")


async def until(condition: Any) -> None:
    await waiting.until(condition, seconds=20.0)


@pytest.mark.parametrize(("poll_wait", "finds"), [(-1, []), (0, [1]), (1, [1, 2])])
async def test_polling(tmp_path: Path, poll_wait: int, finds: list[int]) -> None:
    async with running(tmp_path, model_config_file=str(tmp_path / "source.config")) as place:
        base_path = place.export("m", 1)
        policy = servable("m", str(base_path), "all {}")
        await started(place, tmp_path, f"{policy} file_system_poll_wait_seconds: {poll_wait}")
        if finds:
            await until(lambda: served(place).get(1) == "AVAILABLE")
        place.export("m", 2)
        if 2 in finds:
            await until(lambda: served(place).get(2) == "AVAILABLE")
        else:
            await asyncio.sleep(1.2)
        assert sorted(served(place)) == finds


@pytest.mark.parametrize(
    ("field", "states"), [("", {1: "END"}), ("servable_versions_always_present: true", {1: "AVAILABLE"})]
)
async def test_an_emptied_base_path(tmp_path: Path, field: str, states: dict[int, str]) -> None:
    async with running(tmp_path, model_config_file=str(tmp_path / "source.config")) as place:
        base_path = place.export("m", 1)
        await started(place, tmp_path, f"{servable('m', str(base_path))} file_system_poll_wait_seconds: 1 {field}")
        await until(lambda: served(place) == {1: "AVAILABLE"})
        shutil.rmtree(base_path / "1")
        await until(lambda: "m" in place.plane.problems())
        await until(lambda: served(place) == states)


@pytest.mark.parametrize("field", ["fail_if_zero_versions_at_startup", "servable_versions_always_present"])
async def test_no_versions_refuse_the_start(tmp_path: Path, field: str) -> None:
    async with running(tmp_path, model_config_file=str(tmp_path / "source.config")) as place:
        base_path = place.export("m")
        with pytest.raises(BridgeError) as caught:
            await started(place, tmp_path, f"{servable('m', str(base_path))} {field}: true")
        assert caught.value.message == f"Unable to find a numerical version path for servable m at: {base_path}"
        assert place.registry.current_config() is None
