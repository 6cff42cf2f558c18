"""What Classify, Regress and MultiInference have in common: serialized Examples fed as one string tensor."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf import text_format

from bridge.codec.examples import Examples
from bridge.codec.tensor import Tensor
from bridge.errors import InvalidArgument
from bridge.serving.routes import ServableRoute, SignatureRoute, TensorRoute
from bridge.serving.session_run import SessionRun
from model_repo_sync.protos.tensorflow_serving.get_model_metadata_pb2 import SignatureDefMap
from model_repo_sync.runner.tensorflow_engine import dtypes

INPUTS = "inputs"
"""The alias of the one input."""


def examples_run(examples: Examples, inputs: Sequence[TensorRoute], fetches: Sequence[TensorRoute]) -> SessionRun:
    """The run that feeds the Examples to each of `inputs`, whatever dtype it declares. Raises InvalidArgument."""
    if not examples.items:
        raise InvalidArgument("Input is empty.")
    tensor = examples.tensor()
    run = SessionRun([(route, tensor) for route in inputs], fetches)
    run.check()
    return run


def tensor_of(tensors: Sequence[TensorRoute], alias: str) -> TensorRoute | None:
    """The tensor that a signature calls `alias`."""
    return next((route for route in tensors if route.alias == alias), None)


def signature_text(servable: ServableRoute, signature: SignatureRoute) -> str:
    """The SignatureDef in protobuf's text format, which TF Serving shows in error texts."""
    parsed = SignatureDefMap.FromString(servable.signature_def_map)
    text: str = text_format.MessageToString(parsed.signature_def[signature.name], as_utf8=False)
    return text


def dtype_name(tensor: Tensor) -> str:
    """The name of the tensor's dtype in tensorflow.DataType, such as DT_FLOAT."""
    return dtypes.DTYPES[tensor.dtype].enum_name


def shape_text(tensor: Tensor) -> str:
    """The shape as TensorFlow prints it, such as [2,3]."""
    return f"[{','.join(map(str, tensor.shape))}]"
