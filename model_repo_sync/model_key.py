"""The key of a registered model: a JSON object, as KServe writes it, that says where its files are and what they are.

Other clients of ModelMesh keep texts of their own there; whatever is no JSON object says nothing to us.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ModelKey:
    """`storage_key` names a storage, `storage_params` say more about it; `schema_path` is a file in the same storage.

    `model_type` is the type without its version, empty where the key names none; `disk_size_bytes` is 0 for unknown.
    """

    storage_key: str = ""
    storage_params: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    schema_path: str = ""
    model_type: str = ""
    disk_size_bytes: int = 0


def parse(text: str) -> ModelKey:
    """What a key says."""
    try:
        document = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return ModelKey()
    if not isinstance(document, dict):
        return ModelKey()
    return ModelKey(
        storage_key=_text(document.get("storage_key")),
        storage_params=_parameters(document),
        schema_path=_text(document.get("schema_path")) or _text(document.get("schema")),
        model_type=_model_type(document.get("model_type")),
        disk_size_bytes=_size(document.get("disk_size_bytes")),
    )


def _parameters(document: Mapping[str, Any]) -> Mapping[str, str]:
    """`bucket` beside the parameters is KServe's older form."""
    given = document.get("storage_params")
    parameters = {name: _text(value) for name, value in given.items()} if isinstance(given, dict) else {}
    bucket = _text(document.get("bucket"))
    return {"bucket": bucket, **parameters} if bucket else parameters


def _model_type(value: Any) -> str:
    """A string, or an object of `name` and `version`."""
    return _text(value.get("name")) if isinstance(value, dict) else _text(value)


def _size(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
