"""What V2 clients see of a SavedModel: the aliases of one signature with true shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.errors import InvalidArgument
from bridge.kserve.datatypes import datatype
from bridge.serving.resolve import DEFAULT_SIGNATURE, served
from bridge.serving.routes import ServableRoute, SignatureRoute, TensorRoute
from model_repo_sync.protos.tensorflow.meta_graph_pb2 import SignatureDef, TensorInfo
from model_repo_sync.protos.tensorflow_serving.get_model_metadata_pb2 import SignatureDefMap

SIGNATURE_PARAMETER = "signature_name"
"""The request parameter that chooses a signature."""


class TensorDescription(NamedTuple):
    """A tensor under its alias; -1 is a dimension of any size, a tensor of unknown rank shows as `(-1,)`."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class SignatureDescription(NamedTuple):
    """The tensors of a signature, sorted by alias."""

    inputs: Sequence[TensorDescription]
    outputs: Sequence[TensorDescription]


def signature(servable: ServableRoute, name: str = "") -> SignatureRoute:
    """The signature that a request means.

    Without a name it is `serving_default`, or else the first that can be served, as in Triton's TensorFlow backend.
    Raises InvalidArgument for an unknown one, Unimplemented for one that cannot be served.
    """
    key = name or _default(servable)
    if key not in servable.signatures:
        known = ", ".join(sorted(servable.signatures)) or "none"
        raise InvalidArgument(f"model '{servable.model}' has no signature '{key}'; it has: {known}")
    return served(servable.signatures[key])


def describe(servable: ServableRoute) -> SignatureDescription:
    """The signature that a request without a signature name means; nothing for a model that has none to serve."""
    route = servable.signatures.get(_default(servable))
    if route is None:
        return SignatureDescription((), ())
    definition = SignatureDefMap.FromString(servable.signature_def_map).signature_def[route.name]
    return _description(route, definition)


def _default(servable: ServableRoute) -> str:
    if DEFAULT_SIGNATURE in servable.signatures:
        return DEFAULT_SIGNATURE
    usable = (name for name, route in sorted(servable.signatures.items()) if route.inputs and not route.problem)
    return next(usable, DEFAULT_SIGNATURE)


def _description(route: SignatureRoute, definition: SignatureDef) -> SignatureDescription:
    return SignatureDescription(
        [_tensor(item, definition.inputs) for item in route.inputs],
        [_tensor(item, definition.outputs) for item in route.outputs],
    )


def _tensor(route: TensorRoute, infos: Mapping[str, TensorInfo]) -> TensorDescription:
    kind = datatype(route.dtype)
    shape = _shape(infos[route.alias]) if route.alias in infos else (-1,)
    return TensorDescription(route.alias, kind.name, shape if kind.parts == 1 else (*shape, kind.parts))


def _shape(info: TensorInfo) -> tuple[int, ...]:
    if not info.HasField("tensor_shape") or info.tensor_shape.unknown_rank:
        return (-1,)
    return tuple(dim.size for dim in info.tensor_shape.dim)
