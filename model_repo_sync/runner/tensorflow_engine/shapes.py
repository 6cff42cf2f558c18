"""True shapes: Triton sees flat tensors, the request parameter `shapes` says what they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .errors import INVALID_ARGUMENT, StatusError

PARAMETER = "shapes"
MAX_RANK = 254
MAX_ELEMENTS = 2**63 - 1


def declared(parameters: str) -> dict[str, list[int]]:
    """The true shapes by tensor name, from the JSON of all of a request's parameters."""
    if len(parameters) <= len("{}"):
        return {}
    try:
        shapes = json.loads(json.loads(parameters).get(PARAMETER, "{}"))
    except (TypeError, ValueError) as error:
        raise StatusError(INVALID_ARGUMENT, f"The request parameter {PARAMETER} is not JSON: {error}") from error
    if not isinstance(shapes, dict):
        raise StatusError(INVALID_ARGUMENT, f"The request parameter {PARAMETER} is not a JSON object")
    return shapes


def checked(name: str, shape: Any, elements: int) -> tuple[int, ...]:
    """`shape` as a shape that `elements` elements of the tensor `name` have.

    Raises StatusError; TensorFlow's C API would end the process at a shape that overflows.
    """
    if not isinstance(shape, Sequence) or not all(type(size) is int for size in shape):
        raise StatusError(INVALID_ARGUMENT, f"The shape of input {name} is not a list of integers")
    if len(shape) > MAX_RANK:
        raise StatusError(INVALID_ARGUMENT, f"Input {name} has {len(shape)} dimensions; {MAX_RANK} is the limit")
    product = _product(name, shape)
    if product != elements:
        raise StatusError(
            INVALID_ARGUMENT,
            f"Input {name} of shape {_text(shape)} needs {product} elements but the request holds {elements}",
        )
    return tuple(shape)


def _product(name: str, shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        if size < 0:
            raise StatusError(INVALID_ARGUMENT, f"Input {name} of shape {_text(shape)} has a negative dimension")
        product *= size
        if product > MAX_ELEMENTS or size > MAX_ELEMENTS:
            raise StatusError(
                INVALID_ARGUMENT, f"Input {name} of shape {_text(shape)} would have more than 2**63 - 1 elements"
            )
    return product


def _text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"
