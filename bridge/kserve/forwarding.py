"""Requests that pass through to a Triton model that is not ours: the name is replaced, both ways, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tritonclient.grpc import service_pb2

from bridge.errors import BridgeError, Code
from bridge.kserve.messages import InferRequest, InferResponse, infer_response
from bridge.serving.infer import Send
from bridge.serving.routes import V2Route
from bridge.triton import errors
from bridge.triton.calls import CallError, Fault, InferenceLeg

Relay = Callable[[Any], Awaitable[None]]
"""Takes one ModelStreamInferResponse."""


def forwarded(route: V2Route, method: str, request: Any, kind: Callable[[], Any]) -> Send[Any]:
    """A unary call of Triton's service about a model; its response is a message of `kind`."""
    request.name = route.triton_name
    data = request.SerializeToString()

    async def send(leg: InferenceLeg, remaining: float) -> Any:
        response = kind()
        with _names(route):
            response.ParseFromString(await leg.forward(method, data, remaining))
        if "name" in response.DESCRIPTOR.fields_by_name:
            response.name = route.model
        return response

    return send


def inferred(route: V2Route, request: InferRequest) -> Send[InferResponse]:
    """ModelInfer."""
    data = request.named(route.triton_name)

    async def send(leg: InferenceLeg, remaining: float) -> InferResponse:
        with _names(route):
            response = infer_response(await leg.forward("ModelInfer", data, remaining))
        response.head.model_name = route.model
        return response

    return send


def relayed(route: V2Route, request: InferRequest, relay: Relay) -> Send[None]:
    """One request of a stream; its answers go to `relay` as they come.

    Once there was an answer the request is not sent again: a fault after it is the end.
    """
    data = request.named(route.triton_name)

    async def send(leg: InferenceLeg, remaining: float) -> None:
        begun = False
        try:
            with _names(route):
                async for answer in leg.stream(data, remaining):
                    message = _renamed(answer, route)
                    if not begun:
                        _check(message)
                    begun = True
                    await relay(message)
        except CallError as error:
            if not begun:
                raise
            raise BridgeError(error.message, error.code) from error

    return send


@contextmanager
def _names(route: V2Route) -> Iterator[None]:
    """Raise the errors of a call with the name that clients know."""
    try:
        yield
    except CallError as error:
        message = _in_words_of(route, error.message)
        raise CallError(message, error.code, error.fault, sent=error.sent) from error


def _in_words_of(route: V2Route, text: str) -> str:
    return text.replace(route.triton_name, route.model)


def _renamed(answer: bytes, route: V2Route) -> Any:
    message = service_pb2.ModelStreamInferResponse.FromString(answer)
    if message.error_message:
        message.error_message = _in_words_of(route, message.error_message)
    if message.infer_response.model_name:
        message.infer_response.model_name = route.model
    return message


def _check(message: Any) -> None:
    """Raise CallError where another try may help: the request met no model at all."""
    if message.error_message:
        error = errors.from_triton(message.error_message, Code.UNKNOWN)
        if error.fault in (Fault.NOT_READY, Fault.RUNNER):
            raise error
