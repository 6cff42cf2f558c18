from __future__ import annotations

import json
from typing import Any

import pytest

from model_repo_sync import model_key
from model_repo_sync.model_key import ModelKey


@pytest.mark.parametrize(
    "text", ["", "opaque", "{", "[1]", "7", '"text"', "null", '{"storage_key": 7}', "[" * 100_000, "\ud800", "{}"]
)
def test_what_is_no_object_says_nothing(text: str) -> None:
    assert model_key.parse(text) == ModelKey()


KEYS: list[tuple[dict[str, Any], ModelKey]] = [
    (
        {
            "storage_key": "minio",
            "storage_params": {"bucket": "models", "depth": 3},
            "model_type": {"name": "onnx", "version": "1"},
            "schema_path": "schemas/s.json",
            "disk_size_bytes": 52_331,
        },
        ModelKey("minio", {"bucket": "models", "depth": ""}, "schemas/s.json", "onnx", 52_331),
    ),
    ({"bucket": "old", "model_type": "pytorch"}, ModelKey(storage_params={"bucket": "old"}, model_type="pytorch")),
    ({"bucket": "old", "storage_params": {"bucket": "new"}}, ModelKey(storage_params={"bucket": "new"})),
    ({"schema": "s.json"}, ModelKey(schema_path="s.json")),
    ({"schema": "s.json", "schema_path": "t.json"}, ModelKey(schema_path="t.json")),
    ({"disk_size_bytes": True}, ModelKey()),
    ({"disk_size_bytes": -1}, ModelKey()),
    ({"disk_size_bytes": "12"}, ModelKey()),
    ({"model_type": {"version": "1"}, "storage_params": [], "new": {}}, ModelKey()),
]


@pytest.mark.parametrize(("document", "key"), KEYS)
def test_fields(document: dict[str, Any], key: ModelKey) -> None:
    assert model_key.parse(json.dumps(document)) == key
