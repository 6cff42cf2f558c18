"""Calls Predict with the official client, tensorflow-serving-api: predict.py HOST:PORT MODEL VALUE...

The values are the input `x` of the model's default signature; the output `y` is printed.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

TIMEOUT_SECONDS = 10.0


def predict(address: str, model: str, values: list[float]) -> list[float]:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(values, dtype=tf.float32))
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(request, timeout=TIMEOUT_SECONDS)
    result: list[float] = tf.make_ndarray(response.outputs["y"]).tolist()
    return result


if __name__ == "__main__":
    print(predict(sys.argv[1], sys.argv[2], [float(value) for value in sys.argv[3:]]))
