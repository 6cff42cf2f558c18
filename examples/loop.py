"""Calls Predict without a pause until its input ends: loop.py HOST:PORT MODEL

Uses the official client. Prints a JSON line for each version that answers for the first time, {"version", "y"} with y
for x = 1, and one for the whole: {"requests", "failures"}, the latter a list of sentences.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

TIMEOUT_SECONDS = 10.0


def main(address: str, model: str) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0], dtype=tf.float32))
    requests, failures, seen = 0, [], set()
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        while not input_ended():
            requests += 1
            try:
                response = stub.Predict(request, timeout=TIMEOUT_SECONDS)
            except grpc.RpcError as error:
                failures.append(f"request {requests}: {error.code().name}: {error.details()}")
                continue
            version = response.model_spec.version.value
            if version not in seen:
                seen.add(version)
                tell({"version": version, "y": tf.make_ndarray(response.outputs["y"]).tolist()})
    tell({"requests": requests, "failures": failures})


def input_ended() -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable)


def tell(fact: dict[str, Any]) -> None:
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
