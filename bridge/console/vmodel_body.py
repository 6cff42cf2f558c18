"""What the body of a change of a vmodel says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import InvalidArgument
from bridge.registry.records import ModelInfo, SetVModel

TEXTS = ("target", "expected_target", "owner")
FLAGS = ("auto_delete", "load_now", "force", "update_only", "wait")


def read(id: str, body: Mapping[str, Any]) -> tuple[SetVModel, bool]:
    """The change of the vmodel `id`, and whether to wait for its end. Raises InvalidArgument.

    Only `target` has to be there; `info` is an object of the texts `type`, `path` and `key`.
    """
    _know(body, (*TEXTS, *FLAGS, "info"))
    texts = {name: _typed(body, name, str, "") for name in TEXTS}
    flags = {name: _typed(body, name, bool, False) for name in FLAGS}
    wait = flags.pop("wait")
    return SetVModel(id=id, info=_info(body.get("info")), **texts, **flags), wait


def _info(value: Any) -> ModelInfo | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidArgument("info is not a JSON object")
    _know(value, ("type", "path", "key"))
    return ModelInfo(*(_typed(value, name, str, "") for name in ("type", "path", "key")))


def _know(body: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in body:
        if name not in names:
            raise InvalidArgument(f"there is no '{name}' here; it takes {', '.join(names)}")


def _typed(body: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = body.get(name, default)
    if type(value) is not kind:
        raise InvalidArgument(f"{name} is no {'text' if kind is str else 'boolean'}")
    return value
