from __future__ import annotations

from typing import Any

import pytest

from bridge.console import vmodel_body
from bridge.errors import InvalidArgument
from bridge.registry.records import ModelInfo, SetVModel


def test_the_whole_body() -> None:
    texts = {"target": "t", "expected_target": "e", "owner": "o"}
    flags = {"auto_delete": True, "load_now": True, "force": True, "update_only": True}
    info = {"type": "tensorflow", "path": "p"}
    wanted, wait = vmodel_body.read("v", {**texts, **flags, "info": info, "wait": True})
    assert wanted == SetVModel(id="v", info=ModelInfo("tensorflow", "p"), **texts, **flags)  # type: ignore[arg-type]
    assert wait


def test_the_least_body() -> None:
    assert vmodel_body.read("v", {"target": "t"}) == (SetVModel("v", "t"), False)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"target": 1}, "target is no text"),
        ({"target": "t", "force": "yes"}, "force is no boolean"),
        ({"target": "t", "owners": "o"}, "there is no 'owners' here; it takes target, expected_target"),
        ({"target": "t", "info": "tensorflow"}, "info is not a JSON object"),
        ({"target": "t", "info": {"kind": "x"}}, "there is no 'kind' here; it takes type, path, key"),
        ({"target": "t", "info": {"type": None}}, "type is no text"),
    ],
)
def test_what_is_no_body(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        vmodel_body.read("v", body)
