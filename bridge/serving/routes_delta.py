"""What changed from one routes snapshot to the next, as JSON: with many models a whole one takes long to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from bridge.serving import routes_json
from bridge.serving.routes import EMPTY, InstanceRoute, Routes, VModelRoute

V = TypeVar("V")


def dumps(old: Routes, new: Routes) -> bytes:
    """What makes `new` of `old`, as one JSON document without newlines. From EMPTY that is the whole of `new`."""
    changes = {
        "models": _changes(old.models, new.models),
        "instances": _changes(old.instances, new.instances),
        "registered": _changes(old.registered, new.registered),
        "vmodels": _changes(old.vmodels, new.vmodels),
    }
    document = {"base": old.epoch, "epoch": new.epoch, "configured": new.configured, **changes}
    return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)


def loads(old: Routes, data: bytes) -> Routes:
    """The snapshot that `dumps` was given. Raises ValueError where it was given another `old`."""
    raw = orjson.loads(data)
    base = old if raw["base"] else EMPTY
    if base.epoch != raw["base"]:
        raise ValueError(f"a change of snapshot {raw['base']} came after snapshot {old.epoch}")
    return Routes(
        epoch=raw["epoch"],
        configured=raw["configured"],
        models=_changed(base.models, raw["models"], routes_json.model),
        instances=_changed(base.instances, raw["instances"], lambda value: InstanceRoute(**value)),
        registered=_changed(base.registered, raw["registered"], routes_json.registered),
        vmodels=_changed(base.vmodels, raw["vmodels"], lambda value: VModelRoute(**value)),
    )


def _changes(old: Mapping[str, V], new: Mapping[str, V]) -> tuple[dict[str, Any], list[str]]:
    """The values that are new or another, and the keys that are gone."""
    if old is new:
        return {}, []
    changed = {key: routes_json.plain(value) for key, value in new.items() if old.get(key) != value}
    return changed, [key for key in old if key not in new]


def _changed(
    old: Mapping[str, V], changes: tuple[dict[str, Any], list[str]], read: Callable[[Any], V]
) -> Mapping[str, V]:
    changed, gone = changes
    if not changed and not gone:
        return old
    values = {**old, **{key: read(value) for key, value in changed.items()}}
    for key in gone:
        del values[key]
    return values
