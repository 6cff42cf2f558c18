"""Warmup files for SavedModels in tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from model_repo_sync.protos.tensorflow.example_pb2 import Example
from model_repo_sync.protos.tensorflow.tensor_pb2 import TensorProto
from model_repo_sync.protos.tensorflow_serving.inference_pb2 import InferenceTask
from model_repo_sync.protos.tensorflow_serving.prediction_log_pb2 import PredictionLog
from model_repo_sync.tfrecord import frame

REQUESTS = Path("assets.extra", "tf_serving_warmup_requests")


def predict(signature: str = "", alias: str = "x", dtype: int = 1) -> PredictionLog:
    """A Predict that feeds one float, unless told otherwise."""
    log = PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = "another"
    request.model_spec.signature_name = signature
    request.inputs[alias].CopyFrom(TensorProto(dtype=dtype, float_val=[1.0]))
    request.inputs[alias].tensor_shape.dim.add(size=1)
    return log


def on_examples(kind: str, signature: str) -> PredictionLog:
    """A Classify or Regress, by the name of its field, of one Example with the feature `x`."""
    log = PredictionLog()
    request = getattr(log, kind).request
    request.model_spec.signature_name = signature
    request.input.example_list.examples.append(_example())
    return log


def multi_inference(*questions: tuple[str, str]) -> PredictionLog:
    """A MultiInference of pairs of a signature and `classify` or `regress`."""
    log = PredictionLog()
    request = log.multi_inference_log.request
    for signature, verb in questions:
        task = InferenceTask(method_name=f"tensorflow/serving/{verb}")
        task.model_spec.name = "another"
        task.model_spec.signature_name = signature
        request.tasks.append(task)
    request.input.example_list.examples.append(_example())
    return log


def write(saved_model: Path | str, logs: Sequence[PredictionLog], raw: bytes = b"") -> Path:
    """Give a SavedModel these requests, and bytes behind them."""
    path = Path(saved_model, REQUESTS)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(frame(log.SerializeToString()) for log in logs) + raw)
    return path


def _example() -> Example:
    example = Example()
    example.features.feature["x"].float_list.value.append(1.0)
    return example
