"""The official tensorflow-serving-api client in a process of its own: JSON lines in, JSON lines out.

`python -m tests.tfserving.official_client HOST:PORT`. It imports tensorflow, so the tests' process does not.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

Reply = dict[str, Any]


class Client:
    """One method per RPC; each takes the question's fields and gives the answer's."""

    def __init__(self, address: str) -> None:
        channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(channel)

    def predict(self, question: Reply) -> Reply:
        request = predict_pb2.PredictRequest(output_filter=question.get("filter", ()))
        _fill(request, question)
        for alias, tensor in question.get("inputs", {}).items():
            proto = tf.make_tensor_proto(tensor["values"], dtype=tensor["dtype"], shape=tensor.get("shape"))
            request.inputs[alias].CopyFrom(proto)
        response = self._prediction.Predict(request, timeout=question.get("timeout"))
        return {
            "spec": _spec(response.model_spec),
            "outputs": {key: _plain(response.outputs[key]) for key in response.outputs},
        }

    def metadata(self, question: Reply) -> Reply:
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=question.get("fields", ()))
        _fill(request, question)
        response = self._prediction.GetModelMetadata(request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return {
            "spec": _spec(response.model_spec),
            "keys": sorted(response.metadata),
            "signatures": sorted(signatures.signature_def),
            "inputs": {key: value.name for key, value in signatures.signature_def["serving_default"].inputs.items()},
        }

    def status(self, question: Reply) -> Reply:
        request = get_model_status_pb2.GetModelStatusRequest()
        _fill(request, question)
        rows = self._model.GetModelStatus(request).model_version_status
        assert all(row.HasField("status") for row in rows)
        return {"rows": [[row.version, row.state, row.status.error_code, row.status.error_message] for row in rows]}

    def classify(self, question: Reply) -> Reply:
        return {"answer": str(self._prediction.Classify(classification_pb2.ClassificationRequest()))}

    def regress(self, question: Reply) -> Reply:
        return {"answer": str(self._prediction.Regress(regression_pb2.RegressionRequest()))}

    def multi_inference(self, question: Reply) -> Reply:
        return {"answer": str(self._prediction.MultiInference(inference_pb2.MultiInferenceRequest()))}

    def reload(self, question: Reply) -> Reply:
        return {"answer": str(self._model.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest()))}


def _fill(request: Any, question: Reply) -> None:
    spec = question.get("spec")
    if spec is None:
        return
    request.model_spec.SetInParent()
    request.model_spec.name = spec.get("name", "")
    request.model_spec.signature_name = spec.get("signature", "")
    if "version" in spec:
        request.model_spec.version.value = spec["version"]
    if "label" in spec:
        request.model_spec.version_label = spec["label"]


def _spec(spec: Any) -> Reply:
    assert not spec.version_label
    return {"name": spec.name, "version": spec.version.value, "signature": spec.signature_name}


def _plain(proto: Any) -> Reply:
    array = tf.make_ndarray(proto)
    return {
        "dtype": proto.dtype,
        "shape": list(array.shape) if proto.HasField("tensor_shape") else None,
        "values": json.loads(json.dumps(array.tolist(), default=bytes.decode)),
        "float_val": list(proto.float_val),
        "content": len(proto.tensor_content),
    }


def main() -> None:
    client = Client(sys.argv[1])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        try:
            reply = getattr(client, question["rpc"])(question)
        except grpc.RpcError as error:
            reply = {"code": error.code().name, "details": error.details()}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
