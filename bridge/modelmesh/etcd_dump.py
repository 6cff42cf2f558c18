"""Models and vmodels of a ModelMesh in what `etcdctl get --prefix PREFIX -w json` printed."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.errors import InvalidArgument
from bridge.registry.imports import ImportedModel, ImportedVModel
from bridge.registry.records import ModelInfo

REGISTRY, VMODELS = "/registry/", "/vmodels/"


@dataclass(frozen=True)
class EtcdDump:
    """What a dump holds. `other_keys` are neither models nor vmodels."""

    models: tuple[ImportedModel, ...]
    vmodels: tuple[ImportedVModel, ...]
    other_keys: tuple[str, ...]


def read(text: str | bytes) -> EtcdDump:
    """The dump in a JSON text. Raises InvalidArgument, which names the key that cannot be read."""
    models: list[ImportedModel] = []
    vmodels: list[ImportedVModel] = []
    others: list[str] = []
    for key, value in _pairs(text):
        kind, id = _kind(key)
        if kind == REGISTRY:
            models.append(_model(id, _record(key, value)))
        elif kind == VMODELS:
            vmodels.append(_vmodel(id, _record(key, value)))
        else:
            others.append(key)
    return EtcdDump(tuple(models), tuple(vmodels), tuple(others))


def _pairs(text: str | bytes) -> Iterator[tuple[str, bytes]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"The dump is no JSON: {error}.") from error
    pairs = document.get("kvs", []) if isinstance(document, dict) else None
    if not isinstance(pairs, list):
        raise InvalidArgument("The dump is not what `etcdctl get --prefix PREFIX -w json` prints: it has no `kvs`.")
    for number, pair in enumerate(pairs):
        try:
            yield _decoded(pair["key"]).decode(), _decoded(pair.get("value", ""))
        except (KeyError, TypeError, AttributeError, UnicodeDecodeError, binascii.Error) as error:
            raise InvalidArgument(f"Entry {number} of `kvs` has no key and value in base64.") from error


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _kind(key: str) -> tuple[str, str]:
    """Of which kind a key is, and the id in it, which may hold slashes: the first part that tells a kind counts."""
    places = {kind: f"/{key}".find(kind) for kind in (REGISTRY, VMODELS)}
    found = {kind: place for kind, place in places.items() if place >= 0}
    if not found:
        return "", ""
    kind = min(found, key=lambda kind: found[kind])
    id = f"/{key}"[found[kind] + len(kind) :]
    return (kind, id) if id else ("", "")


@dataclass(frozen=True)
class _Record:
    """The JSON object under a key."""

    key: str
    values: Mapping[str, Any]

    def field(self, name: str, default: Any) -> Any:
        """The value called `name`, `default` where there is none. Raises InvalidArgument for one of another type."""
        value = self.values.get(name)
        if value is None:
            return default
        if type(value) is not type(default):
            raise InvalidArgument(f"`{name}` in the value of key '{self.key}' is no {type(default).__name__}.")
        return value


def _record(key: str, value: bytes) -> _Record:
    try:
        record = json.loads(value)
    except ValueError as error:
        raise InvalidArgument(f"The value of key '{key}' is no JSON.") from error
    if not isinstance(record, dict):
        raise InvalidArgument(f"The value of key '{key}' is no JSON object.")
    return _Record(key, record)


def _model(id: str, record: _Record) -> ImportedModel:
    info = ModelInfo(record.field("type", ""), record.field("mPath", ""), record.field("encKey", ""))
    return ImportedModel(id, info, record.field("autoDel", False), record.field("lu", 0) * 1000)


def _vmodel(id: str, record: _Record) -> ImportedVModel:
    active = record.field("amid", "")
    return ImportedVModel(id, record.field("o", ""), active, record.field("tmid", "") or active)
