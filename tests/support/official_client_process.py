"""The official tensorflow-serving-api client in a process of its own: JSON lines in, JSON lines out.

It imports tensorflow, so the tests' process does not; see tests.support.official_client. Strings of tensors travel as
text of which each character is one byte.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
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
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
LOOP_X = [1.0, 2.0, 5.0]
LOOP_TIMEOUT = 20.0
LOOP_PAUSE = 0.002
"""Seconds between two requests of a loop: on a small machine the server needs the processor too."""
KEPT_DETAILS = 20


class Client:
    """One method per RPC; each takes the question's fields and gives the answer's.

    `tls` is the `roots`, and the `key` and `chain` where it shows a certificate, each as PEM.
    """

    def __init__(self, address: str, tls: dict[str, str] | None = None) -> None:
        self._channel = _secure_channel(address, tls) if tls else grpc.insecure_channel(address, options=OPTIONS)
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def predict(self, question: Reply) -> Reply:
        request = predict_pb2.PredictRequest(output_filter=question.get("filter", ()))
        _fill(request, question)
        for alias, tensor in question.get("inputs", {}).items():
            request.inputs[alias].CopyFrom(_proto(tensor))
        response = self._prediction.Predict(request, **_options(question))
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
        rows = self._model.GetModelStatus(request, metadata=_metadata(question)).model_version_status
        assert all(row.HasField("status") for row in rows)
        return {"rows": [[row.version, row.state, row.status.error_code, row.status.error_message] for row in rows]}

    def classify(self, question: Reply) -> Reply:
        request = classification_pb2.ClassificationRequest()
        _fill(request, question)
        _fill_input(request, question)
        response = self._prediction.Classify(request, **_options(question))
        return {"spec": _spec(response.model_spec), "result": _classifications(response.result)}

    def regress(self, question: Reply) -> Reply:
        request = regression_pb2.RegressionRequest()
        _fill(request, question)
        _fill_input(request, question)
        response = self._prediction.Regress(request, **_options(question))
        return {"spec": _spec(response.model_spec), "result": _regressions(response.result)}

    def multi_inference(self, question: Reply) -> Reply:
        request = inference_pb2.MultiInferenceRequest()
        for item in question.get("tasks", ()):
            task = request.tasks.add(method_name=item.get("method", ""))
            _fill(task, item)
        _fill_input(request, question)
        response = self._prediction.MultiInference(request, **_options(question))
        return {"results": [_inference(result) for result in response.results]}

    def reload(self, question: Reply) -> Reply:
        request = model_management_pb2.ReloadConfigRequest(metric_names=question.get("metrics", ()))
        text_format.Parse(question["config"], request.config)
        metadata = [*_metadata(question), *([("x-audit-reason", question["reason"])] if "reason" in question else [])]
        response = self._model.HandleReloadConfigRequest(request, timeout=question.get("timeout"), metadata=metadata)
        return {
            "status": [response.status.error_code, response.status.error_message],
            "metrics": {metric.name: metric.int64_value_increase for metric in response.metric},
        }


def _secure_channel(address: str, tls: dict[str, str]) -> grpc.Channel:
    pems = {name: pem.encode() for name, pem in tls.items()}
    credentials = grpc.ssl_channel_credentials(pems["roots"], pems.get("key"), pems.get("chain"))
    return grpc.secure_channel(address, credentials, options=OPTIONS)


class Loop:
    """Predict on a half_plus_two whose bias tells its version, again and again, and a tally of the answers."""

    def __init__(self, question: Reply) -> None:
        self._client = Client(question["to"])
        self._question = {
            "spec": question["spec"],
            "inputs": {"x": {"dtype": "float32", "values": LOOP_X}},
            "timeout": LOOP_TIMEOUT,
        }
        self._stop = threading.Event()
        self._ok = 0
        self._errors: dict[str, int] = {}
        self._details: list[str] = []
        self._wrong: list[Reply] = []
        self._versions: list[int] = []
        self._slowest = self._gap = 0.0
        self._last_ok = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def tally(self) -> Reply:
        """Counts so far; `gap` is the longest time between two good answers, `since` that since the last one."""
        return {
            "ok": self._ok,
            "errors": dict(self._errors),
            "details": list(self._details),
            "wrong": list(self._wrong),
            "versions": list(self._versions),
            "slowest": self._slowest,
            "gap": self._gap,
            "since": time.monotonic() - self._last_ok,
        }

    def stop(self) -> Reply:
        self._stop.set()
        self._thread.join()
        self._client.close()
        return self.tally()

    def _run(self) -> None:
        while not self._stop.wait(LOOP_PAUSE):
            began = time.monotonic()
            try:
                answer = self._client.predict(self._question)
            except grpc.RpcError as error:
                self._failed(error)
            else:
                self._answered(answer)
            self._slowest = max(self._slowest, time.monotonic() - began)

    def _failed(self, error: Any) -> None:
        code = error.code().name
        self._errors[code] = self._errors.get(code, 0) + 1
        if error.details() not in self._details and len(self._details) < KEPT_DETAILS:
            self._details.append(error.details())

    def _answered(self, answer: Reply) -> None:
        version = answer["spec"]["version"]
        if answer["outputs"]["y"]["values"] != [x / 2 + version % 1000 for x in LOOP_X]:
            self._wrong.append(answer)
            return
        now = time.monotonic()
        self._gap = max(self._gap, now - self._last_ok)
        self._last_ok = now
        self._ok += 1
        if self._versions[-1:] != [version]:
            self._versions.append(version)


class Process:
    """Answers questions: an RPC to `to` on a channel of its own, or the work of a loop."""

    def __init__(self) -> None:
        self._loops: dict[int, Loop] = {}

    def answer(self, question: Reply) -> Reply:
        if question["rpc"].startswith("loop_"):
            work = getattr(self, question["rpc"])
            result: Reply = work(question)
            return result
        client = Client(question["to"], question.get("tls"))
        try:
            reply: Reply = getattr(client, question["rpc"])(question)
            return reply
        except grpc.RpcError as error:
            return {"code": error.code().name, "details": error.details()}
        finally:
            client.close()

    def loop_start(self, question: Reply) -> Reply:
        number = len(self._loops)
        self._loops[number] = Loop(question)
        return {"loop": number}

    def loop_tally(self, question: Reply) -> Reply:
        return self._loops[question["loop"]].tally()

    def loop_stop(self, question: Reply) -> Reply:
        return self._loops[question["loop"]].stop()


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


def _options(question: Reply) -> Reply:
    """The call's options: `timeout` in seconds, `compression` gzip or deflate, `headers` as metadata."""
    compression = question.get("compression")
    return {
        "timeout": question.get("timeout"),
        "compression": grpc.Compression[compression.capitalize()] if compression else None,
        "metadata": _metadata(question),
    }


def _metadata(question: Reply) -> list[tuple[str, str]]:
    return list(question.get("headers", {}).items())


def _fill_input(request: Any, question: Reply) -> None:
    """`examples` and `context` map features to a value or a list of values: float, int, or text of bytes."""
    if "context" in question:
        target = request.input.example_list_with_context
        target.context.CopyFrom(_example(question["context"]))
    elif "examples" in question:
        target = request.input.example_list
        target.SetInParent()
    else:
        return
    target.examples.extend(map(_example, question.get("examples", ())))


def _example(features: Reply) -> Any:
    example = tf.train.Example()
    for name, content in features.items():
        values = content if isinstance(content, list) else [content]
        feature = example.features.feature[name]
        if isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            feature.bytes_list.value.extend(value.encode("latin-1") for value in values)
    return example


def _classifications(result: Any) -> list[list[list[Any]]]:
    return [[[item.label, item.score] for item in row.classes] for row in result.classifications]


def _regressions(result: Any) -> list[float]:
    return [item.value for item in result.regressions]


def _inference(result: Any) -> Reply:
    kind = result.WhichOneof("result")
    plain = _classifications if kind == "classification_result" else _regressions
    return {"spec": _spec(result.model_spec), kind: plain(getattr(result, kind))}


def _proto(tensor: Reply) -> Any:
    """TensorFlow's own choice of encoding, or the one that `as` says: `content` or `typed`."""
    values = tensor["values"]
    if tensor["dtype"] == "string":
        values = np.vectorize(str.encode, otypes=[object])(np.array(values, object), "latin-1")
    proto = tf.make_tensor_proto(values, dtype=tensor["dtype"], shape=tensor.get("shape"))
    encoding = tensor.get("as")
    if encoding == "content":
        content = tf.make_ndarray(proto).tobytes()
        proto.ClearField("float_val")
        proto.tensor_content = content
    elif encoding == "typed":
        proto.float_val[:] = tf.make_ndarray(proto).ravel()
        proto.ClearField("tensor_content")
    return proto


def _spec(spec: Any) -> Reply:
    assert not spec.version_label
    return {"name": spec.name, "version": spec.version.value, "signature": spec.signature_name}


def _plain(proto: Any) -> Reply:
    array = tf.make_ndarray(proto)
    return {
        "dtype": proto.dtype,
        "shape": list(array.shape) if proto.HasField("tensor_shape") else None,
        "values": json.loads(json.dumps(array.tolist(), default=lambda value: value.decode("latin-1"))),
        "float_val": list(proto.float_val),
        "content": len(proto.tensor_content),
    }


def main() -> None:
    process = Process()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(process.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
