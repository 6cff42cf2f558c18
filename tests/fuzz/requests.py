"""Requests that TF Serving answers, from which the mutations start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message

from model_repo_sync.protos.tensorflow.example_pb2 import Example
from model_repo_sync.protos.tensorflow.tensor_pb2 import TensorProto
from model_repo_sync.protos.tensorflow_serving.classification_pb2 import ClassificationRequest
from model_repo_sync.protos.tensorflow_serving.get_model_metadata_pb2 import GetModelMetadataRequest
from model_repo_sync.protos.tensorflow_serving.get_model_status_pb2 import GetModelStatusRequest
from model_repo_sync.protos.tensorflow_serving.inference_pb2 import MultiInferenceRequest
from model_repo_sync.protos.tensorflow_serving.input_pb2 import Input
from model_repo_sync.protos.tensorflow_serving.model_management_pb2 import ReloadConfigRequest
from model_repo_sync.protos.tensorflow_serving.predict_pb2 import PredictRequest
from model_repo_sync.protos.tensorflow_serving.regression_pb2 import RegressionRequest
from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from tests.fuzz.vocabulary import LABEL, MODEL

FLOAT, STRING = 1, 7


class Rpc(NamedTuple):
    service: str
    name: str
    request: type[Message]
    codes: frozenset[str]
    """The statuses that its protocol has for it, beside OK and the one for bytes that are no message."""

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


def _rpc(service: str, name: str, request: type[Message], *codes: str) -> Rpc:
    return Rpc(f"tensorflow.serving.{service}", name, request, frozenset({"INVALID_ARGUMENT", *codes}))


RPCS = (
    _rpc("PredictionService", "Predict", PredictRequest, "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED"),
    _rpc("PredictionService", "Classify", ClassificationRequest, "NOT_FOUND", "UNIMPLEMENTED"),
    _rpc("PredictionService", "Regress", RegressionRequest, "NOT_FOUND", "UNIMPLEMENTED"),
    _rpc("PredictionService", "MultiInference", MultiInferenceRequest, "NOT_FOUND", "UNIMPLEMENTED"),
    _rpc("PredictionService", "GetModelMetadata", GetModelMetadataRequest, "NOT_FOUND"),
    _rpc("ModelService", "GetModelStatus", GetModelStatusRequest, "NOT_FOUND"),
    _rpc("ModelService", "HandleReloadConfigRequest", ReloadConfigRequest, "FAILED_PRECONDITION", "NOT_FOUND"),
)


def messages() -> Sequence[tuple[Rpc, bytes]]:
    """Good requests to each RPC."""
    made: Mapping[str, Sequence[Message]] = {
        "Predict": [*_predict()],
        "Classify": [ClassificationRequest(model_spec=_spec("classify_x_to_y"), input=kind) for kind in _inputs()],
        "Regress": [RegressionRequest(model_spec=_spec("regress_x_to_y"), input=kind) for kind in _inputs()],
        "MultiInference": [_multi_inference()],
        "GetModelMetadata": [GetModelMetadataRequest(model_spec=_spec(), metadata_field=["signature_def"])],
        "GetModelStatus": [GetModelStatusRequest(model_spec=_spec())],
        "HandleReloadConfigRequest": [_reload()],
    }
    return [(rpc, request.SerializeToString()) for rpc in RPCS for request in made[rpc.name]]


def _spec(signature: str = "", model: str = MODEL) -> Any:
    return {"name": model, "signature_name": signature}


def _predict() -> list[Message]:
    x = TensorProto(dtype=FLOAT, tensor_shape={"dim": [{"size": 3}]}, float_val=[1, 2, 5])
    content = TensorProto(dtype=FLOAT, tensor_shape={"dim": [{"size": 1}, {"size": 1}]}, tensor_content=bytes(4))
    words = TensorProto(dtype=STRING, tensor_shape={"dim": [{"size": 2}]}, string_val=[b"a", b"\xff"])
    framed = TensorProto(dtype=STRING, tensor_shape={"dim": [{"size": 2}]}, tensor_content=b"\x01\x02abc")
    requests: list[Message] = [
        PredictRequest(model_spec=_spec(), inputs={"x": x}, output_filter=["y"]),
        PredictRequest(model_spec={"name": MODEL, "version": {"value": 1}}, inputs={"x": content}),
        PredictRequest(model_spec={"name": MODEL, "version_label": LABEL}, inputs={"x": TensorProto(dtype=FLOAT)}),
        PredictRequest(model_spec=_spec(model="strings"), inputs={"words": words}),
        PredictRequest(model_spec=_spec(model="strings"), inputs={"words": framed}),
        PredictRequest(model_spec=_spec(model="odd"), inputs={"x": x, "words": words}),
        PredictRequest(model_spec=_spec("float", "odd")),
    ]
    for number, dtype in DTYPES.items():
        shape = {"dim": [{"size": 2}]}
        tensor = TensorProto(dtype=number, tensor_shape=shape, tensor_content=bytes(2 * dtype.itemsize))
        requests.append(PredictRequest(model_spec=_spec(dtype.name, "dtypes"), inputs={"x": tensor}))
    return requests


def _example(x: float) -> Example:
    return Example(features={"feature": {"x": {"float_list": {"value": [x]}}, "s": {"bytes_list": {"value": [b"a"]}}}})


def _inputs() -> list[Input]:
    with_context = {"examples": [_example(1)], "context": _example(2)}
    return [Input(example_list={"examples": [_example(1), _example(2)]}), Input(example_list_with_context=with_context)]


def _multi_inference() -> Message:
    request = MultiInferenceRequest(input=_inputs()[0])
    for kind in ("classify", "regress"):
        request.tasks.add(model_spec=_spec(f"{kind}_x_to_y"), method_name=f"tensorflow/serving/{kind}")
    return request


def _reload() -> Message:
    request = ReloadConfigRequest(metric_names=["/tensorflow/serving/request_count"])
    model = request.config.model_config_list.config.add(name=MODEL, base_path="/models/m", model_platform="tensorflow")
    model.model_version_policy.specific.versions[:] = [1, 123]
    model.version_labels[LABEL] = 1
    model.logging_config.log_collector_config.filename_prefix = "/logs/m"
    model.logging_config.sampling_config.sampling_rate = 0.5
    return request


TARGETS = (
    f"/v1/models/{MODEL}:predict",
    f"/v1/models/{MODEL}/versions/1:predict",
    f"/v1/models/{MODEL}/labels/{LABEL}:predict",
    "/v1/models/dtypes:predict",
    "/v1/models/strings:predict",
    "/v1/models/odd:predict",
    f"/v1/models/{MODEL}:classify",
    f"/v1/models/{MODEL}:regress",
    "/v1/models/odd:classify",
    "/v1/models/odd:regress",
)


def bodies() -> Sequence[tuple[int, bytes]]:
    """Good JSON bodies, each with the position of its target."""
    examples: dict[str, Any] = {"examples": [{"x": 1.0, "s": ["a", {"b64": "/w=="}]}, {"x": [2.0], "n": [1, True]}]}
    numbers: list[Any] = [
        {"instances": [1.0, 2.0, 5.0]},
        {"instances": [{"x": 1}, {"x": 2}]},
        {"inputs": {"x": [[1.0], [2]]}},
        {"signature_name": "regress_x2_to_y3", "inputs": 1.5},
    ]
    known: dict[int, list[Any]] = {
        0: numbers,
        1: numbers[:1],
        2: numbers[1:2],
        4: [{"instances": ["apple", {"b64": "Yv/+"}]}, {"inputs": {"words": [["a"], ["b"]]}}],
        5: [
            {"instances": [{"x": 1.0, "words": "a", "y": 2}]},
            {"inputs": {"x": [1.0], "words": [], "y": 9223372036854775807}},
            {"signature_name": "float", "inputs": {}},
        ],
    }
    for target in (6, 8):
        known[target] = [{"signature_name": "classify_x_to_y", **examples}, {"context": {"x": 1.0}, **examples}]
    for target in (7, 9):
        known[target] = [{"signature_name": "regress_x_to_y", **examples}]
    known[3] = [{"signature_name": dtype.name, "instances": [1, 0]} for dtype in DTYPES.values()]
    known[3] += [{"signature_name": "bool", "inputs": [True]}, {"signature_name": "string", "inputs": {"x": ["a"]}}]
    made = [(target, json.dumps(body).encode()) for target, listed in known.items() for body in listed]
    return [*made, (0, b'{"instances": [NaN, Infinity, -Infinity, 1e999]}'), (0, b'\xef\xbb\xbf{"inputs": 1} rest')]


URLS: Sequence[tuple[str, bytes]] = [
    ("GET", b"/v2/health/ready"),
    ("GET", f"/v2/models/{MODEL}/versions/1/config".encode()),
    ("POST", b"/v2/repository/index"),
    ("POST", b"/v2/models/a%2Fb/infer?x=1"),
    ("POST", f"/v1/models/{MODEL}:predict".encode()),
    ("POST", f"/V1/Models/{MODEL}/versions/123:PREDICT".encode()),
    ("GET", f"/v1/models/{MODEL}".encode()),
    ("GET", f"/v1/models/{MODEL}/labels/{LABEL}/metadata".encode()),
    ("GET", b"/v1/models/a%2Fb%3Ac%ff/versions/18446744073709551615"),
    ("OPTIONS", b"/v1/models/x"),
    ("HEAD", b"/v1/"),
    ("GET", b"/monitoring/prometheus/metrics"),
    ("PUT", b"/monitoring/prometheus/metrics?x=1"),
]
