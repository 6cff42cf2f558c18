"""From a ModelInfer request to a session run of a SavedModel, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from bridge.codec.tensor import Tensor
from bridge.errors import InvalidArgument, Unimplemented
from bridge.kserve.contents import described, input_tensor
from bridge.kserve.messages import InferRequest, InferResponse
from bridge.kserve.signatures import SIGNATURE_PARAMETER, signature
from bridge.serving.predict import session_run
from bridge.serving.routes import ServableRoute, SignatureRoute
from bridge.serving.session_run import SessionRun

SHARED_MEMORY = "shared_memory_region"
CLASSIFICATION = "classification"


def run(servable: ServableRoute, request: InferRequest) -> SessionRun:
    """The run that answers `request`. Shapes are left to the graph, as TF Serving does.

    Raises InvalidArgument in Triton's words, Unimplemented for shared memory and classification.
    """
    parameters = request.head.parameters
    name = parameters[SIGNATURE_PARAMETER].string_param if SIGNATURE_PARAMETER in parameters else ""
    chosen = signature(servable, name)
    inputs = _inputs(servable.model, chosen, request)
    return session_run(chosen, inputs, _outputs(servable.model, chosen, request.head))


def response(servable: ServableRoute, request_id: str, outputs: Sequence[tuple[str, Tensor]]) -> InferResponse:
    """The answer with `outputs` by alias, always in raw contents, as Triton answers."""
    head = service_pb2.ModelInferResponse(model_name=servable.model, model_version=str(servable.version), id=request_id)
    for alias, tensor in outputs:
        kind, shape = described(tensor)
        head.outputs.add(name=alias, datatype=kind, shape=shape)
    return InferResponse(head, [tensor.data for _, tensor in outputs])


def _inputs(model: str, chosen: SignatureRoute, request: InferRequest) -> dict[str, Tensor]:
    messages, raw = request.head.inputs, request.raw
    if raw and len(raw) != len(messages):
        raise InvalidArgument(
            f"expected {len(messages)} raw input contents for model '{model}', one for each input, got {len(raw)}"
        )
    dtypes = {route.alias: route.dtype for route in chosen.inputs}
    tensors: dict[str, Tensor] = {}
    for index, message in enumerate(messages):
        _check_input(model, message, dtypes, tensors)
        content = raw[index] if raw else None
        tensors[message.name] = input_tensor(message, content, dtypes[message.name], model)
    _check_count(model, chosen, tensors)
    return tensors


def _check_input(model: str, message: Any, known: dict[str, int], tensors: dict[str, Tensor]) -> None:
    if message.name not in known:
        raise InvalidArgument(f"unexpected inference input '{message.name}' for model '{model}'")
    if message.name in tensors:
        raise InvalidArgument(f"input '{message.name}' already exists in request for model '{model}'")
    _refuse_shared_memory(model, message)


def _check_count(model: str, chosen: SignatureRoute, tensors: dict[str, Tensor]) -> None:
    missing = [route.alias for route in chosen.inputs if route.alias not in tensors]
    required = [alias for alias in missing if alias not in chosen.defaults]
    if required:
        most, least = len(chosen.inputs), len(chosen.inputs) - len(chosen.defaults)
        expected = str(most) if least == most else f"between {least} and {most}"
        names = ", ".join(f"'{alias}'" for alias in required)
        raise InvalidArgument(
            f"expected number of inputs {expected} but got {len(tensors)} inputs for model '{model}', "
            f"missing required input(s) [{names}]"
        )


def _outputs(model: str, chosen: SignatureRoute, request: Any) -> list[str]:
    known = {route.alias for route in chosen.outputs}
    for message in request.outputs:
        if message.name not in known:
            raise InvalidArgument(f"unexpected inference output '{message.name}' for model '{model}'")
        _refuse_shared_memory(model, message)
        if CLASSIFICATION in message.parameters:
            raise Unimplemented(f"Output '{message.name}' of model '{model}': classification is not supported.")
    return list(dict.fromkeys(message.name for message in request.outputs))


def _refuse_shared_memory(model: str, message: Any) -> None:
    if SHARED_MEMORY in message.parameters:
        raise Unimplemented(
            f"Tensor '{message.name}' of model '{model}': shared memory is not supported, send and receive contents."
        )
