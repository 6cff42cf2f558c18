"""TF Serving's Predict: the checks between a request and a session run, in its order and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import TensorParseError, decode_tensor_proto
from bridge.errors import InvalidArgument
from bridge.serving.routes import SignatureRoute, TensorRoute
from bridge.serving.session_run import SessionRun

RequestTensor = memoryview | Tensor
"""A request's tensor: a serialized TensorProto, or one that a shell has decoded."""


def session_run(
    signature: SignatureRoute, inputs: Mapping[str, RequestTensor], output_filter: Sequence[str] = ()
) -> SessionRun:
    """The run that answers a Predict request on `signature`. An empty `output_filter` means all outputs.

    Shapes are not checked: TF Serving leaves them to the graph. Raises InvalidArgument.
    """
    _check_count(signature, inputs)
    feeds = [(route, _input(signature, route, inputs)) for route in signature.inputs]
    _check_all_used(signature, inputs)
    run = SessionRun(feeds, _fetches(signature, output_filter))
    run.check()
    return run


def _check_count(signature: SignatureRoute, inputs: Mapping[str, RequestTensor]) -> None:
    required = len(signature.inputs)
    if len(inputs) == required or (len(inputs) < required and signature.defaults):
        return
    sent, known = set(inputs), {route.alias for route in signature.inputs}
    raise InvalidArgument(
        f"input size does not match signature: {len(inputs)}!={required} len({{{_join(sent)}}}) != "
        f"len({{{_join(known)}}}). Sent extra: {{{_join(sent - known)}}}. "
        f"Missing but required: {{{_join(known - sent)}}}."
    )


def _input(signature: SignatureRoute, route: TensorRoute, inputs: Mapping[str, RequestTensor]) -> Tensor:
    value = inputs.get(route.alias)
    if value is None and route.alias in signature.defaults:
        value = memoryview(signature.defaults[route.alias])
    if value is None:
        raise InvalidArgument(
            f"Signature input alias: {route.alias}(feed name: {route.tensor}) not found in request and no default "
            f"value provided. Inputs expected to be in the request {{{_join(inputs)}}}, or default input alias set: "
            f"{_join(signature.defaults)}"
        )
    if isinstance(value, Tensor):
        return value
    try:
        return decode_tensor_proto(value)
    except TensorParseError as error:
        raise InvalidArgument(f"tensor parsing error: {route.alias}") from error


def _check_all_used(signature: SignatureRoute, inputs: Mapping[str, RequestTensor]) -> None:
    used = [route.alias for route in signature.inputs if route.alias in inputs]
    if len(used) != len(inputs):
        raise InvalidArgument(
            f"Inputs contains invalid name. Used request inputs: {_join(used)}, request input: {_join(inputs)}"
        )


def _fetches(signature: SignatureRoute, output_filter: Sequence[str]) -> Sequence[TensorRoute]:
    if not output_filter:
        return signature.outputs
    outputs = {route.alias: route for route in signature.outputs}
    chosen: dict[str, TensorRoute] = {}
    for alias in output_filter:
        if alias not in outputs:
            raise InvalidArgument(
                f"output tensor alias not found in signature: {alias} "
                f"Outputs expected to be in the set {{{_join(outputs)}}}."
            )
        if alias in chosen:
            raise InvalidArgument(f"duplicate output tensor alias: {alias}")
        chosen[alias] = outputs[alias]
    return list(chosen.values())


def _join(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
