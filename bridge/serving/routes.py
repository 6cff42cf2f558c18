"""The routes snapshot: what the request path knows, published whole by the control plane.

A snapshot is immutable and serialisable, so request path and control plane may live in one process or in two
(`bridge.serving.link`). Nothing here calls SQL, Triton or the file system.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import orjson

from bridge.errors import Code


class VersionState(IntEnum):
    """States of a version with the numbers of ModelVersionStatus.State."""

    UNKNOWN = 0
    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True, slots=True)
class TensorRoute:
    """One alias of a signature.

    `tensor` is the graph name (`x:0`) and the name of Triton's input or output. `dtype` is TensorFlow's number of the
    graph's dtype without the reference bit.
    """

    alias: str
    tensor: str
    dtype: int


@dataclass(frozen=True, slots=True)
class SignatureRoute:
    """A signature that can be called. Inputs and outputs are sorted by alias; `defaults` are serialized TensorProtos.

    `problem` is set, in one sentence, when the signature is known but cannot be served.
    """

    name: str
    method_name: str
    inputs: tuple[TensorRoute, ...]
    outputs: tuple[TensorRoute, ...]
    defaults: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ServableRoute:
    """One AVAILABLE version. `instances` names the Tritons that hold a ready copy; empty while it recovers."""

    model: str
    version: int
    triton_name: str
    instances: tuple[str, ...]
    signatures: Mapping[str, SignatureRoute]
    signature_def_map: bytes
    """Serialized tensorflow.serving.SignatureDefMap, verbatim from the SavedModel."""
    stateful: bool = False
    """True if running a signature changes state: a request that may have run is then never sent twice."""


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """What GetModelStatus shows of one version."""

    version: int
    state: VersionState
    code: Code = Code.OK
    message: str = ""


@dataclass(frozen=True, slots=True)
class LoggingRoute:
    """Which requests of a model are logged: `sampling_rate` of them, to files whose names begin with `filename_prefix`.

    `sampling_config` is the serialized tensorflow.serving.SamplingConfig, for the log.
    """

    filename_prefix: str
    sampling_rate: float
    sampling_config: bytes


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """`servables` are the AVAILABLE versions; `statuses` are all versions seen by this process, highest first."""

    name: str
    servables: Mapping[int, ServableRoute]
    labels: Mapping[str, int]
    statuses: tuple[VersionStatus, ...]
    configured: bool = True
    """False once the model left the configuration; its statuses stay, as in TF Serving."""
    awaited: tuple[int, ...] = ()
    """Versions that do not serve yet after a start of the server, and that requests wait for."""
    unread: bool = False
    """True until the server looked for versions for the first time: every request waits."""
    logging: LoggingRoute | None = None
    """None where no request is logged."""

    def latest(self) -> ServableRoute | None:
        """The highest AVAILABLE version."""
        return self.servables[max(self.servables)] if self.servables else None


@dataclass(frozen=True, slots=True)
class InstanceRoute:
    """Where the request path reaches one Triton. `http` is `host:port`, empty where HTTP is closed; so is `grpc`."""

    name: str
    grpc: str
    http: str
    tls: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Routes:
    """One published snapshot.

    Epochs grow by at least one with each publication. They start from the wall clock, so that those of a restarted
    control plane are newer too.
    """

    epoch: int
    models: Mapping[str, ModelRoute]
    instances: Mapping[str, InstanceRoute]
    configured: bool = False
    """True once any configuration was applied: before that labels answer UNAVAILABLE, as in TF Serving."""

    def servables(self) -> Iterator[ServableRoute]:
        for model in self.models.values():
            yield from model.servables.values()


EMPTY = Routes(epoch=0, models={}, instances={})


def dumps(routes: Routes) -> bytes:
    """The snapshot as one JSON document without newlines."""
    return orjson.dumps(_plain(routes), option=orjson.OPT_NON_STR_KEYS)


def loads(data: bytes) -> Routes:
    """The inverse of `dumps`."""
    raw = orjson.loads(data)
    return Routes(
        epoch=raw["epoch"],
        configured=raw["configured"],
        models={name: _model(value) for name, value in raw["models"].items()},
        instances={name: InstanceRoute(**value) for name, value in raw["instances"].items()},
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def _model(raw: dict[str, Any]) -> ModelRoute:
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
