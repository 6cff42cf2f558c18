"""TF Serving's Classify: what it asks of a signature and of a model's answer, in its order and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bridge.codec.inference_results import Classifications
from bridge.codec.string_tensor import unframe
from bridge.codec.tensor import Tensor
from bridge.errors import InvalidArgument
from bridge.serving import method_names
from bridge.serving.examples import INPUTS, dtype_name, shape_text, signature_text, tensor_of
from bridge.serving.resolve import served
from bridge.serving.routes import ServableRoute, SignatureRoute, TensorRoute
from model_repo_sync.runner.tensorflow_engine.dtypes import DT_FLOAT, DT_STRING

CLASSES, SCORES = "classes", "scores"


class Classifier(NamedTuple):
    """A signature that classifies. At least one of `classes` and `scores` is there."""

    signature: str
    input: TensorRoute
    classes: TensorRoute | None
    scores: TensorRoute | None

    @property
    def fetches(self) -> tuple[TensorRoute, ...]:
        return tuple(route for route in (self.classes, self.scores) if route is not None)

    def result(self, count: int, outputs: Mapping[str, Tensor]) -> Classifications:
        """What the outputs, by graph tensor, say of `count` Examples. Raises InvalidArgument."""
        classes = outputs[self.classes.tensor] if self.classes else None
        scores = outputs[self.scores.tensor] if self.scores and self.scores.tensor not in self._labels else None
        if classes is not None:
            _check(classes, CLASSES, "DT_STRING", DT_STRING, count)
        if scores is not None:
            _check(scores, SCORES, "DT_FLOAT", DT_FLOAT, count)
        if classes is not None and scores is not None and classes.shape[1] != scores.shape[1]:
            raise InvalidArgument(
                f"Tensors class and score should match in dim_size(1). Got {classes.shape[1]} vs. {scores.shape[1]}"
            )
        return _rows(count, classes, scores)

    @property
    def _labels(self) -> tuple[str, ...]:
        """TF Serving takes a tensor that has both aliases for the classes alone."""
        return (self.classes.tensor,) if self.classes else ()


def classifier(servable: ServableRoute, signature: SignatureRoute, *, check_method_name: bool) -> Classifier:
    """`signature` as a Classifier. Raises InvalidArgument, Unimplemented if it cannot be served."""
    if check_method_name:
        method_names.check_classify(signature)
    if len(signature.inputs) != 1:
        raise InvalidArgument("Expected one input Tensor.")
    if len(signature.outputs) not in (1, 2):
        raise InvalidArgument(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    source = tensor_of(signature.inputs, INPUTS)
    if source is None:
        raise InvalidArgument(f"No classification inputs found in SignatureDef: {signature_text(servable, signature)}")
    classes, scores = tensor_of(signature.outputs, CLASSES), tensor_of(signature.outputs, SCORES)
    if classes is None and scores is None:
        raise InvalidArgument(
            f'Expected classification signature outputs to contain at least one of "{CLASSES}" or "{SCORES}". '
            f"Signature was: {signature_text(servable, signature)}"
        )
    served(signature)
    return Classifier(signature.name, source, classes, scores)


def _check(tensor: Tensor, name: str, expected: str, dtype: int, count: int) -> None:
    if len(tensor.shape) != 2:
        raise InvalidArgument(f"Expected Tensor shape: [batch_size num_classes] but got {shape_text(tensor)}")
    if tensor.dtype != dtype:
        raise InvalidArgument(f"Expected {name} Tensor of {expected}. Got: {dtype_name(tensor)}")
    if tensor.shape[0] != count:
        raise InvalidArgument(f"Expected {name} output batch size of {count}. Got: {tensor.shape[0]}")


def _rows(count: int, classes: Tensor | None, scores: Tensor | None) -> Classifications:
    [columns] = {tensor.shape[1] for tensor in (classes, scores) if tensor is not None}
    labels = [b""] * (count * columns) if classes is None else unframe(classes.data)
    values = [0.0] * (count * columns) if scores is None else np.frombuffer(scores.data, np.float32).tolist()
    pairs = list(zip(labels, values, strict=True))
    return Classifications([pairs[row * columns : (row + 1) * columns] for row in range(count)])
