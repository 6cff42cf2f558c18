"""The official tensorflow-serving-api client as people write it, in a process of its own.

python -m tests.clients.python_client ADDRESS NUMBERED_BASE_PATH STRINGS_BASE_PATH

tests/clients/calls.py says what it calls and prints.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

Spec = model_pb2.ModelSpec
X = [1.0, 2.0, 5.0]
TIMEOUT = 20.0


def main() -> None:
    address, numbered, words = sys.argv[1:]
    with grpc.insecure_channel(address) as channel:
        calls = Calls(channel)
        answers = {name: _answer(call) for name, call in calls.all(numbered, words).items()}
    print(json.dumps(answers))


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except grpc.RpcError as error:
        return [error.code().value[0], error.details()]


class Calls:
    def __init__(self, channel: grpc.Channel) -> None:
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(channel)

    def all(self, numbered: str, words: str) -> dict[str, Callable[[], Any]]:
        labels = {"stable": 1, "canary": 123}
        return {
            "predict": lambda: self.predict(Spec(name="numbered")),
            "predict, gzip": lambda: self.predict(Spec(name="numbered"), compression=grpc.Compression.Gzip),
            "predict, version": lambda: self.predict(Spec(name="numbered", version={"value": 1})),
            "predict, label": lambda: self.predict(Spec(name="numbered", version_label="stable")),
            "predict, signature": lambda: self.predict(Spec(name="numbered", signature_name="serving_default")),
            "predict, tensor_content": self.predict_content,
            "predict, strings": self.predict_words,
            "classify": self.classify,
            "regress": self.regress,
            "multi_inference": self.multi_inference,
            "metadata": self.metadata,
            "status": lambda: self.status(Spec(name="numbered")),
            "status, version": lambda: self.status(Spec(name="numbered", version={"value": 1})),
            "status, unknown": lambda: self.status(Spec(name="no")),
            "predict, unknown model": lambda: self.predict(Spec(name="dummy_model")),
            "predict, unknown version": lambda: self.predict(Spec(name="numbered", version={"value": 7})),
            "predict, unknown label": lambda: self.predict(Spec(name="numbered", version_label="1")),
            "reload, without labels": lambda: self.reload(numbered, words, {}),
            "predict, label taken away": lambda: self.predict(Spec(name="numbered", version_label="stable")),
            "reload, with labels": lambda: self.reload(numbered, words, labels),
            "predict, label back": lambda: self.predict(Spec(name="numbered", version_label="stable")),
        }

    def predict(self, spec: Any, **options: Any) -> Any:
        x = tf.make_tensor_proto(0.0, dtype=tf.float32)
        x.tensor_shape.dim.add(size=3)
        x.float_val[:] = X
        return self._run(spec, x, **options)

    def predict_content(self) -> Any:
        return self._run(Spec(name="numbered"), tf.make_tensor_proto(np.array(X, np.float32).reshape(3, 1)))

    def _run(self, spec: Any, x: Any, **options: Any) -> Any:
        request = predict_pb2.PredictRequest(model_spec=spec)
        request.inputs["x"].CopyFrom(x)
        response = self._prediction.Predict(request, TIMEOUT, **options)
        y = response.outputs["y"]
        assert tf.make_ndarray(y).ravel().tolist() == list(y.float_val)
        return [_spec(response), [dim.size for dim in y.tensor_shape.dim], list(y.float_val)]

    def predict_words(self) -> Any:
        request = predict_pb2.PredictRequest(model_spec=Spec(name="strings"), output_filter=["length", "words"])
        request.inputs["words"].CopyFrom(tf.make_tensor_proto([b"apple", b"b\xff\xfe", b""]))
        response = self._prediction.Predict(request, TIMEOUT)
        words = [word.hex() for word in response.outputs["words"].string_val]
        return [list(response.outputs["length"].int_val), words]

    def classify(self) -> Any:
        spec = Spec(name="numbered", version={"value": 1}, signature_name="classify_x_to_y")
        request = classification_pb2.ClassificationRequest(model_spec=spec, input=_examples(20.0))
        response = self._prediction.Classify(request, TIMEOUT)
        return [_spec(response), _classes(response.result)]

    def regress(self) -> Any:
        spec = Spec(name="numbered", version={"value": 1}, signature_name="regress_x_to_y")
        request = regression_pb2.RegressionRequest(model_spec=spec, input=_examples(80.0))
        response = self._prediction.Regress(request, TIMEOUT)
        return [_spec(response), _values(response.result)]

    def multi_inference(self) -> Any:
        request = inference_pb2.MultiInferenceRequest(input=_examples(2.0))
        for kind in ("classify", "regress"):
            spec = Spec(name="numbered", signature_name=f"{kind}_x_to_y")
            request.tasks.add(model_spec=spec, method_name=f"tensorflow/serving/{kind}")
        classified, regressed = self._prediction.MultiInference(request, TIMEOUT).results
        return [
            [_spec(classified), _classes(classified.classification_result)],
            [_spec(regressed), _values(regressed.regression_result)],
        ]

    def metadata(self) -> Any:
        spec = Spec(name="numbered")
        request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
        response = self._prediction.GetModelMetadata(request, TIMEOUT)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        assert response.metadata["signature_def"].Unpack(signatures)
        x = signatures.signature_def["serving_default"].inputs["x"]
        return [_spec(response), sorted(signatures.signature_def), x.name, types_pb2.DataType.Name(x.dtype)]

    def status(self, spec: Any) -> Any:
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
        state = get_model_status_pb2.ModelVersionStatus.State
        return [
            [row.version, state.Name(row.state), row.status.error_code, row.status.error_message]
            for row in self._model.GetModelStatus(request, TIMEOUT).model_version_status
        ]

    def reload(self, numbered: str, words: str, labels: dict[str, int]) -> Any:
        config = model_server_config_pb2.ModelServerConfig()
        text_format.Parse(
            f'model_config_list {{ config {{ name: "numbered" base_path: "{numbered}" model_platform: "tensorflow" '
            f'model_version_policy {{ all {{}} }} }} config {{ name: "strings" base_path: "{words}" '
            'model_platform: "tensorflow" } }',
            config,
        )
        config.model_config_list.config[0].version_labels.update(labels)
        request = model_management_pb2.ReloadConfigRequest(config=config)
        status = self._model.HandleReloadConfigRequest(request, TIMEOUT).status
        return [status.error_code, status.error_message]


def _spec(response: Any) -> list[Any]:
    spec = response.model_spec
    return [spec.name, spec.version.value, spec.signature_name]


def _examples(x: float) -> Any:
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[x]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    return input_pb2.Input(example_list=input_pb2.ExampleList(examples=[example]))


def _classes(result: Any) -> list[Any]:
    return [[one.label, one.score] for row in result.classifications for one in row.classes]


def _values(result: Any) -> list[float]:
    return [row.value for row in result.regressions]


if __name__ == "__main__":
    main()
