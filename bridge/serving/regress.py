"""TF Serving's Regress: what it asks of a signature and of a model's answer, in its order and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bridge.codec.inference_results import Regressions
from bridge.codec.tensor import Tensor
from bridge.errors import InvalidArgument
from bridge.serving import method_names
from bridge.serving.examples import INPUTS, dtype_name, shape_text, signature_text, tensor_of
from bridge.serving.resolve import served
from bridge.serving.routes import ServableRoute, SignatureRoute, TensorRoute
from model_repo_sync.runner.tensorflow_engine.dtypes import DT_FLOAT

OUTPUTS = "outputs"
"""The alias of the one output."""


class Regressor(NamedTuple):
    """A signature that gives one number per Example."""

    signature: str
    input: TensorRoute
    output: TensorRoute

    @property
    def fetches(self) -> tuple[TensorRoute, ...]:
        return (self.output,)

    def result(self, count: int, outputs: Mapping[str, Tensor]) -> Regressions:
        """What the outputs, by graph tensor, say of `count` Examples. Raises InvalidArgument."""
        tensor = outputs[self.output.tensor]
        shape = tensor.shape
        if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
            raise InvalidArgument(
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
                f"{shape_text(tensor)}"
            )
        if shape[0] != count:
            raise InvalidArgument(f"Input batch size did not match output batch size: {count} vs. {shape[0]}")
        if tensor.dtype != DT_FLOAT:
            raise InvalidArgument(f"Expected output Tensor of DT_FLOAT.  Got: {dtype_name(tensor)}")
        return Regressions(np.frombuffer(tensor.data, np.float32).tolist())


def regressor(servable: ServableRoute, signature: SignatureRoute, *, check_method_name: bool) -> Regressor:
    """`signature` as a Regressor. Raises InvalidArgument, Unimplemented if it cannot be served."""
    if check_method_name:
        method_names.check_regress(signature)
    if len(signature.inputs) != 1:
        raise InvalidArgument("Expected one input Tensor.")
    if len(signature.outputs) != 1:
        raise InvalidArgument("Expected one output Tensor.")
    source = tensor_of(signature.inputs, INPUTS)
    if source is None:
        raise InvalidArgument(f"No regression inputs found in SignatureDef: {signature_text(servable, signature)}")
    output = tensor_of(signature.outputs, OUTPUTS)
    if output is None:
        raise InvalidArgument(f"No regression outputs found in SignatureDef: {signature_text(servable, signature)}")
    served(signature)
    return Regressor(signature.name, source, output)
