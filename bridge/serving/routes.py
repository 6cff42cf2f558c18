"""The routes snapshot: what the request path knows, published whole by the control plane.

A snapshot is immutable and serialisable (`bridge.serving.routes_json`), so request path and control plane may live in
one process or in two (`bridge.serving.link`). Nothing here calls SQL, Triton or the file system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Self

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
class V2Route:
    """A Triton model that is not ours: KServe V2 requests pass through under `triton_name`, nothing else reaches it.

    `model` is the name that clients use. `stateful` as in ServableRoute.
    """

    model: str
    triton_name: str
    instances: tuple[str, ...]
    stateful: bool = False


Destination = ServableRoute | V2Route
"""What requests are sent to: copies of one Triton model."""


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """The answer to demands for a model that could not be loaded, as clients are to see it.

    Each demand that failed has another `number`, so that a request knows whether its own was meant.
    """

    number: int
    code: Code
    message: str


@dataclass(frozen=True, slots=True)
class RegisteredRoute:
    """A registered model. One of `servable` (a SavedModel) and `v2` is set while a copy is loaded, none otherwise."""

    id: str
    servable: ServableRoute | None = None
    v2: V2Route | None = None
    failure: LoadFailure | None = None

    @classmethod
    def of(cls, id: str, destination: Destination | None, failure: LoadFailure | None = None) -> Self:
        """The route of a model whose copies are at `destination`."""
        if isinstance(destination, V2Route):
            return cls(id, v2=destination, failure=failure)
        return cls(id, servable=destination, failure=failure)

    @property
    def loaded(self) -> Destination | None:
        """What answers requests, None where no copy is loaded."""
        route = self.servable or self.v2
        return route if route is not None and route.instances else None


@dataclass(frozen=True, slots=True)
class VModelRoute:
    """A name for the registered model `active`."""

    id: str
    active: str


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
    registered: Mapping[str, RegisteredRoute] = field(default_factory=lambda: MappingProxyType({}))
    vmodels: Mapping[str, VModelRoute] = field(default_factory=lambda: MappingProxyType({}))

    def servables(self) -> Iterator[ServableRoute]:
        """Those of TF Serving's models and of registered ones."""
        return (route for route in self.destinations() if isinstance(route, ServableRoute))

    def destinations(self) -> Iterator[Destination]:
        """Everything that requests can be sent to."""
        for model in self.models.values():
            yield from model.servables.values()
        for registered in self.registered.values():
            if registered.loaded is not None:
                yield registered.loaded


EMPTY = Routes(epoch=0, models={}, instances={})
