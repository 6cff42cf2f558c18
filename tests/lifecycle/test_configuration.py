"""Configurations against the table of TF Serving's checks: which comes first, with which code and sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle.configuration import Rules, from_file, given, requested
from bridge.settings import Settings
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig
from model_repo_sync.protos.text import from_text


class Served:
    """Model `a` serves version 1 under the label `stable`, model `b` is configured and serves nothing."""

    def platform(self, model: str) -> str | None:
        return "tensorflow" if model in ("a", "b") else None

    def label(self, model: str, label: str) -> int | None:
        return 1 if (model, label) == ("a", "stable") else None

    def is_available(self, model: str, version: int) -> bool:
        return (model, version) == ("a", 1)


def parse(text: str) -> ModelServerConfig:
    return from_text(text, ModelServerConfig)


def config(*models: str) -> ModelServerConfig:
    return parse("model_config_list {" + " ".join(f"config {{ {model} }}" for model in models) + "}")


GOOD = 'name: "a" base_path: "/m/a" model_platform: "tensorflow"'
NOT_AVAILABLE = "Request to assign label to version {} of model {}, which is not currently available for inference"


@pytest.mark.parametrize(
    ("models", "code", "sentence"),
    [
        ([GOOD, GOOD], Code.INVALID_ARGUMENT, "Illegal to list model a multiple times in config list"),
        (
            ['name: "a" base_path: "m" model_platform: "tensorflow"'],
            Code.INVALID_ARGUMENT,
            "Expected model a to have an absolute path or URI; got base_path()=m",
        ),
        (
            ['name: "a" model_platform: "tensorflow"'],
            Code.INVALID_ARGUMENT,
            "Expected model a to have an absolute path or URI; got base_path()=",
        ),
        (
            ['name: "a" base_path: "/m" model_platform: "other"'],
            Code.INVALID_ARGUMENT,
            "Illegal to change a model's platform. For model a platform was tensorflow and new platform requested is "
            "other",
        ),
        (
            ['name: "c" base_path: "/m" model_platform: "other"'],
            Code.INVALID_ARGUMENT,
            "Model c requests unsupported platform other",
        ),
        (
            ['name: "c" base_path: "/m" model_platform: "tensorflow" model_type: TENSORFLOW'],
            Code.INVALID_ARGUMENT,
            "Illegal setting both ModelServerConfig::model_type (deprecated) and ModelServerConfig::model_platform, "
            "model name is c",
        ),
        (
            ['name: "c" base_path: "/m"'],
            Code.INVALID_ARGUMENT,
            "Illegal setting neither ModelServerConfig::model_type (deprecated) nor ModelServerConfig::model_platform, "
            "model name is c",
        ),
        (
            ['name: "c" base_path: "/m" model_type: OTHER'],
            Code.INVALID_ARGUMENT,
            "ModelServerConfig::model_type choice 2 not supported.",
        ),
        (
            [GOOD + ' version_labels { key: "canary" value: 2 }'],
            Code.FAILED_PRECONDITION,
            NOT_AVAILABLE.format(2, "a"),
        ),
        (
            ['name: "c" base_path: "/m" version_labels { key: "x" value: 1 }'],
            Code.FAILED_PRECONDITION,
            NOT_AVAILABLE.format(1, "c"),
        ),
        (
            ['name: "a" base_path: "/m" version_labels { key: "x" value: 7 }'],
            Code.INVALID_ARGUMENT,
            "Illegal setting neither ModelServerConfig::model_type (deprecated) nor ModelServerConfig::model_platform, "
            "model name is a",
        ),
    ],
)
def test_refused(models: list[str], code: Code, sentence: str) -> None:
    with pytest.raises(BridgeError) as caught:
        requested(config(*models), Served(), Rules())
    assert (caught.value.code, caught.value.message) == (code, sentence)


@pytest.mark.parametrize("text", ["", "custom_model_config { }"])
def test_only_a_list_may_be_requested(text: str) -> None:
    with pytest.raises(BridgeError) as caught:
        requested(parse(text), Served(), Rules())
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.message == (
        "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported"
    )


def test_an_empty_list_is_legal() -> None:
    assert requested(parse("model_config_list {}"), Served(), Rules()).models == ()


@pytest.mark.parametrize(
    ("label", "allowed"),
    [("canary: 2", True), ("stable: 1", True), ("stable: 2", False), ("canary: 1", True)],
)
def test_labels_of_versions_that_do_not_serve(label: str, allowed: bool) -> None:
    name, version = label.split(": ")
    labelled = config(GOOD + f' version_labels {{ key: "{name}" value: {version} }}')
    rules = Rules(unavailable_labels=True)
    if allowed:
        assert requested(labelled, Served(), rules).models[0].labels == {name: int(version)}
    else:
        with pytest.raises(BridgeError):
            requested(labelled, Served(), rules)


def test_a_policy_and_both_ways_to_name_the_platform() -> None:
    new = 'name: "c" base_path: "s3://bucket/c" model_type: TENSORFLOW model_version_policy { all {} }'
    first, second = requested(config(GOOD, new), Served(), Rules()).models
    assert (first.name, first.base_path, first.platform) == ("a", "/m/a", "tensorflow")
    assert first.policy == {"latest": {"num_versions": 1}}
    assert (second.platform, second.policy) == ("tensorflow", {"all": {}})


@pytest.mark.parametrize(
    ("path", "allowed"), [("ok", True), ("ok/deeper", True), ("okay", False), ("ok/../other", False), ("link", False)]
)
def test_allowed_base_paths(tmp_path: Path, path: str, allowed: bool) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    settings = Settings(model_base_path=str(tmp_path / path), allowed_base_paths=str(tmp_path / "ok"))
    configuration = given(settings)
    assert configuration is not None
    assert (configuration.error is None) == allowed
    if configuration.error is not None:
        assert "lies outside --allowed_base_paths" in configuration.error.message


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("s3://bucket/models/m", True), ("S3://bucket/models", True), ("s3://bucket/models/../other", False),
        ("s3://bucket/modelsx", False), ("s3://bucket2/models/m", False), ("gs://bucket/models/m", False),
        ("s3://bucket/./models//m/", True), ("file:///srv/m", True), ("file:///srv/../etc", False), ("/srv/m", True),
        ("/bucket/models/m", False), ("file://bucket/models/m", False), ("memory://s3://bucket/models", False),
        ("zip::s3://bucket/models/m", False), ("simplecache::file:///srv/m", False),
    ],
)  # fmt: skip
def test_allowed_urls(path: str, allowed: bool) -> None:
    configuration = given(Settings(model_base_path=path, allowed_base_paths="s3://bucket/models/,/srv"))
    assert configuration is not None
    assert (configuration.error is None) == allowed


def test_the_file_wins_over_the_flags(tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text('model_config_list { config { name: "f" base_path: "/f" model_platform: "tensorflow" } }')
    configuration = given(Settings(model_config_file=str(file), model_name="m", model_base_path="/m"))
    assert configuration is not None
    assert [model.name for model in configuration.models] == ["f"]


def test_no_configuration_at_all() -> None:
    assert given(Settings()) is None


@pytest.mark.parametrize(
    ("content", "code", "parts"),
    [
        (None, Code.NOT_FOUND, ["; No such file or directory"]),
        ("", Code.INVALID_ARGUMENT, ["; Invalid argument"]),
        ("improperly formatted file", Code.INVALID_ARGUMENT, ["Invalid protobuf file: '", "1:"]),
        ("model_config_list { config { nam: 'a' } }", Code.INVALID_ARGUMENT, ["Invalid protobuf file: '", "nam"]),
        ("model_config_list { config { name: 'a' base_path: 'x' } }", Code.INVALID_ARGUMENT, ["absolute path"]),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: str | None, code: Code, parts: list[str]) -> None:
    file = tmp_path / "models.config"
    if content is not None:
        file.write_text(content)
    error = from_file(str(file), Rules()).error
    assert error is not None
    assert error.code is code
    for part in parts:
        assert part in error.message
    assert str(file) in error.message
