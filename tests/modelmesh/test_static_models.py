from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import InvalidArgument
from bridge.modelmesh.static_models import StaticModel, from_environment
from bridge.registry.records import ModelInfo

INFO = {"type": "tensorflow", "path": "p", "key": "k"}


def test_variable_and_file_are_joined(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(json.dumps([{"modelId": "b", "modelInfo": INFO, "vModelId": "v", "retainAfterTransition": True}]))
    listed = [{"modelId": "a", "modelInfo": {"type": "tensorflow", "path": None}, "ensureLoaded": True, "more": 1}]
    environment = {"MM_AUTO_REGISTER_MODELS": json.dumps(listed), "MM_AUTO_REGISTER_MODELS_PATH": str(file)}
    assert from_environment(environment) == (
        StaticModel("a", ModelInfo("tensorflow"), ensure_loaded=True),
        StaticModel("b", ModelInfo("tensorflow", "p", "k"), vmodel="v", retain=True),
    )


def test_nothing_is_listed() -> None:
    assert from_environment({"MM_AUTO_REGISTER_MODELS": "", "MM_AUTO_REGISTER_MODELS_PATH": ""}) == ()


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        ("{", "MM_AUTO_REGISTER_MODELS is not JSON"),
        ({}, "MM_AUTO_REGISTER_MODELS is not a JSON list of objects"),
        (["a"], "MM_AUTO_REGISTER_MODELS is not a JSON list of objects"),
        ([{"modelId": "a"}, {"modelId": 1}], "modelId in entry 2 of MM_AUTO_REGISTER_MODELS is no str"),
        ([{"modelId": "a", "modelInfo": "x"}], "modelInfo in entry 1 of MM_AUTO_REGISTER_MODELS is no dict"),
        ([{"modelId": "a", "ensureLoaded": "yes"}], "ensureLoaded in entry 1 of MM_AUTO_REGISTER_MODELS is no bool"),
    ],
)
def test_what_is_no_list_of_models(listed: Any, sentence: str) -> None:
    text = listed if isinstance(listed, str) else json.dumps(listed)
    with pytest.raises(InvalidArgument, match=sentence):
        from_environment({"MM_AUTO_REGISTER_MODELS": text})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"MM_AUTO_REGISTER_MODELS_PATH=.* cannot be read"):
        from_environment({"MM_AUTO_REGISTER_MODELS_PATH": str(tmp_path / "missing")})
