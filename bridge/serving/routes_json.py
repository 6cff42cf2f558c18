"""Routes snapshots as JSON, for a request path in a process of its own."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import orjson

from bridge.errors import Code
from bridge.serving.routes import (
    InstanceRoute,
    LoadFailure,
    LoggingRoute,
    ModelRoute,
    RegisteredRoute,
    Routes,
    ServableRoute,
    SignatureRoute,
    TensorRoute,
    V2Route,
    VersionState,
    VersionStatus,
    VModelRoute,
)


def dumps(routes: Routes) -> bytes:
    """The snapshot as one JSON document without newlines."""
    return orjson.dumps(plain(routes), option=orjson.OPT_NON_STR_KEYS)


def loads(data: bytes) -> Routes:
    """The inverse of `dumps`."""
    raw = orjson.loads(data)
    return Routes(
        epoch=raw["epoch"],
        configured=raw["configured"],
        models={name: model(value) for name, value in raw["models"].items()},
        instances={name: InstanceRoute(**value) for name, value in raw["instances"].items()},
        registered={name: registered(value) for name, value in raw["registered"].items()},
        vmodels={name: VModelRoute(**value) for name, value in raw["vmodels"].items()},
    )


def plain(value: Any) -> Any:
    """A part of a snapshot in types that JSON knows."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def model(raw: dict[str, Any]) -> ModelRoute:
    """The ModelRoute of such plain values."""
    return ModelRoute(
        name=raw["name"],
        configured=raw["configured"],
        awaited=tuple(raw["awaited"]),
        unread=raw["unread"],
        labels=raw["labels"],
        logging=_logging(raw["logging"]),
        servables={int(version): _servable(value) for version, value in raw["servables"].items()},
        statuses=tuple(
            VersionStatus(item["version"], VersionState(item["state"]), Code(item["code"]), item["message"])
            for item in raw["statuses"]
        ),
    )


def registered(raw: dict[str, Any]) -> RegisteredRoute:
    """The RegisteredRoute of such plain values."""
    servable, v2, failure = raw["servable"], raw["v2"], raw["failure"]
    return RegisteredRoute(
        id=raw["id"],
        servable=None if servable is None else _servable(servable),
        v2=None if v2 is None else V2Route(**{**v2, "instances": tuple(v2["instances"])}),
        failure=None if failure is None else LoadFailure(failure["number"], Code(failure["code"]), failure["message"]),
    )


def _logging(raw: dict[str, Any] | None) -> LoggingRoute | None:
    if raw is None:
        return None
    return LoggingRoute(raw["filename_prefix"], raw["sampling_rate"], base64.b64decode(raw["sampling_config"]))


def _servable(raw: dict[str, Any]) -> ServableRoute:
    return ServableRoute(
        model=raw["model"],
        version=raw["version"],
        triton_name=raw["triton_name"],
        instances=tuple(raw["instances"]),
        signatures={name: _signature(value) for name, value in raw["signatures"].items()},
        signature_def_map=base64.b64decode(raw["signature_def_map"]),
        stateful=raw["stateful"],
    )


def _signature(raw: dict[str, Any]) -> SignatureRoute:
    return SignatureRoute(
        name=raw["name"],
        method_name=raw["method_name"],
        inputs=tuple(TensorRoute(**item) for item in raw["inputs"]),
        outputs=tuple(TensorRoute(**item) for item in raw["outputs"]),
        defaults={alias: base64.b64decode(value) for alias, value in raw["defaults"].items()},
        problem=raw["problem"],
    )
