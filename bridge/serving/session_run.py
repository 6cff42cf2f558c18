"""One run of a TensorFlow session (feeds and fetches) and its form as a call of a Triton model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import orjson

from bridge.codec.tensor import Tensor
from bridge.errors import BridgeError, Code, InvalidArgument
from bridge.serving.routes import TensorRoute
from bridge.triton.calls import ModelCall, WireTensor
from model_repo_sync.runner.tensorflow_engine import dtypes

PING_INPUT = "bridge.noop"
"""The input that a call without feeds carries, since Triton wants at least one."""
PING_OUTPUT = "bridge.runner"
"""The output whose request alone asks the runner whether it lives."""

_NOOP = WireTensor(PING_INPUT, "UINT8", (1,), b"\0")
_PLAIN_DTYPES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 14, 17, 19, 22, 23)
_BY_DATATYPE = {dtypes.DTYPES[number].triton: number for number in _PLAIN_DTYPES}


class SessionRun(NamedTuple):
    """`feeds` pairs the fed aliases with their tensors; `fetches` are the asked aliases in the order of the answer."""

    feeds: Sequence[tuple[TensorRoute, Tensor]]
    fetches: Sequence[TensorRoute]

    def check(self) -> None:
        """Refuse what TensorFlow's session refuses before it runs, in its order and words.

        The graph decides, not the signature: a SavedModel may declare another dtype than the graph has. TensorFlow
        numbers the arguments by the sorted names of the fed tensors.

        Raises InvalidArgument.
        """
        feeds = sorted(self.feeds, key=_tensor_name) if len(self.feeds) > 1 else self.feeds
        for (route, _), (following, _) in pairwise(feeds):
            if route.tensor == following.tensor:
                raise InvalidArgument(f'Endpoint "{route.tensor}" fed more than once.')
        for position, (route, tensor) in enumerate(feeds):
            if tensor.dtype != route.dtype:
                expected, provided = dtypes.name(route.dtype), dtypes.name(tensor.dtype)
                raise InvalidArgument(f"Expects arg[{position}] to be {expected} but {provided} is provided")

    def call(self, triton_name: str, *, repeatable: bool = False) -> ModelCall:
        """The run as a call of the Triton model: tensors flat, their true shapes in one parameter.

        `repeatable` as in ModelCall.
        """
        shapes = {route.tensor: tensor.shape for route, tensor in self.feeds if len(tensor.shape) != 1}
        return ModelCall(
            triton_name,
            [_flat(route, tensor) for route, tensor in self.feeds] or [_NOOP],
            tuple(dict.fromkeys([route.tensor for route in self.fetches])),
            {"shapes": orjson.dumps(shapes).decode()} if shapes else {},
            repeatable=repeatable,
        )

    def outputs(self, answer: Sequence[WireTensor]) -> list[tuple[str, Tensor]]:
        """The answer by alias, in the order of `fetches`. A missing tensor is UNKNOWN, as in TF Serving."""
        by_name = {tensor.name: tensor for tensor in answer}
        found = [(route, by_name.get(route.tensor)) for route in self.fetches]
        return [(route.alias, _true(tensor, route.dtype)) for route, tensor in found]


def ping(triton_name: str) -> ModelCall:
    """The call that the runner answers without a session run."""
    return ModelCall(model=triton_name, inputs=[_NOOP], outputs=[PING_OUTPUT])


def _tensor_name(feed: tuple[TensorRoute, Tensor]) -> str:
    return feed[0].tensor


def _flat(route: TensorRoute, tensor: Tensor) -> WireTensor:
    dtype = dtypes.DTYPES[tensor.dtype]
    elements = math.prod(tensor.shape) * dtype.multiplicity
    return WireTensor(route.tensor, dtype.triton, (elements,), tensor.data)


def _true(tensor: WireTensor | None, declared: int) -> Tensor:
    """Triton's tensor in TensorFlow's terms. The runner's datatype wins where the signature declares another dtype."""
    if tensor is None:
        raise BridgeError("Predict internal error", Code.UNKNOWN)
    dtype = dtypes.DTYPES.get(declared)
    if dtype is None or dtype.triton != tensor.datatype:
        dtype = dtypes.DTYPES[_BY_DATATYPE[tensor.datatype]]
    shape = tensor.shape if dtype.multiplicity == 1 else tensor.shape[:-1]
    return Tensor(dtype.number, shape, tensor.data)
