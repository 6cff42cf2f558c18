"""The calls that are compared: the same tensors to the bridge, to the runner's model in Triton, and to a bare model."""

from __future__ import annotations

import json
import struct
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from benchmarks.h2load import Load, run
from model_repo_sync.protos.tensorflow import types_pb2
from model_repo_sync.protos.tensorflow_serving import predict_pb2

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
TIMEOUT_SECONDS = 30.0
INFER = "/inference.GRPCInferenceService/ModelInfer"
FRAME = struct.Struct(">BI")

Array = NDArray[np.float32]
Decode = Callable[[bytes], Array]


class WrongAnswer(Exception):
    """A call answered, but not what the model computes."""


@dataclass(frozen=True)
class Call(ABC):
    """One call to one address. `path` names it in the results, `body` is what is posted."""

    path: str
    address: str
    target: str
    body: bytes
    decode: Decode
    expected: Array

    def verify(self) -> int:
        """Call once and compare values and status; returns the size of the answer's body on the wire."""
        answer = self.ask()
        found = self.decode(answer)
        if not np.array_equal(found, self.expected):
            raise WrongAnswer(f"{self.path}: {found[:8]} instead of {self.expected[:8]}")
        return self.wire_size(answer)

    @abstractmethod
    def ask(self) -> bytes: ...

    @abstractmethod
    def wire_size(self, answer: bytes) -> int: ...

    @abstractmethod
    def load(self, requests: int, in_flight: int, scratch: Path) -> Load: ...


class GrpcCall(Call):
    """A unary RPC; `target` is /service/method."""

    def ask(self) -> bytes:
        with grpc.insecure_channel(self.address, options=UNLIMITED) as channel:
            call: Any = channel.unary_unary(self.target)
            return bytes(call(self.body, timeout=TIMEOUT_SECONDS))

    def wire_size(self, answer: bytes) -> int:
        return FRAME.size + len(answer)

    def load(self, requests: int, in_flight: int, scratch: Path) -> Load:
        framed = scratch / "body"
        framed.write_bytes(FRAME.pack(0, len(self.body)) + self.body)
        headers = {"content-type": "application/grpc", "te": "trailers"}
        return run(f"http://{self.address}{self.target}", framed, headers, requests=requests, in_flight=in_flight)


class RestCall(Call):
    """A POST of JSON."""

    def ask(self) -> bytes:
        request = urllib.request.Request(self._url, self.body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return bytes(response.read())

    def wire_size(self, answer: bytes) -> int:
        return len(answer)

    def load(self, requests: int, in_flight: int, scratch: Path) -> Load:
        body = scratch / "body"
        body.write_bytes(self.body)
        headers = {"content-type": "application/json"}
        return run(self._url, body, headers, requests=requests, in_flight=in_flight, http1=True)

    @property
    def _url(self) -> str:
        return f"http://{self.address}{self.target}"


@dataclass(frozen=True)
class Places:
    """Where the compared servers are, and the names of their models."""

    bridge_grpc: str
    bridge_rest: str
    triton_grpc: str
    triton_http: str
    model: str
    triton_model: str
    identity: str


def grpc_calls(places: Places, x: Array) -> list[Call]:
    """Direct Triton first: it is what the others are compared with."""
    half = x / 2 + 2
    predict = "/tensorflow.serving.PredictionService/Predict"
    return [
        half_plus_two_call("Triton", places.triton_grpc, places.triton_model, x),
        GrpcCall("bridge", places.bridge_grpc, predict, _predict(places.model, x), _predict_output, half),
        identity_call("Triton, identity", places.triton_grpc, places.identity, x),
    ]


def half_plus_two_call(path: str, address: str, model: str, x: Array) -> GrpcCall:
    """To the runner's model half_plus_two in a Triton."""
    return GrpcCall(path, address, INFER, _infer(model, "x:0", "y:0", x), _infer_output, x / 2 + 2)


def identity_call(path: str, address: str, model: str, x: Array) -> GrpcCall:
    """To the bare model in a Triton."""
    return GrpcCall(path, address, INFER, _infer(model, "x", "y", x), _infer_output, x)


def rest_calls(places: Places, x: Array) -> list[Call]:
    half = x / 2 + 2
    inputs = [{"name": "x:0", "datatype": "FP32", "shape": [len(x)], "data": x.tolist()}]
    direct = json.dumps({"inputs": inputs, "outputs": [{"name": "y:0"}]}).encode()
    columns = json.dumps({"instances": x.tolist()}).encode()
    model = f"/v1/models/{places.model}:predict"
    return [
        RestCall(
            "Triton", places.triton_http, f"/v2/models/{places.triton_model}/infer", direct, _json_infer_output, half
        ),
        RestCall("bridge", places.bridge_rest, model, columns, _json_predict_output, half),
    ]


def _predict(model: str, x: Array) -> bytes:
    """As the official client's make_tensor_proto writes it: dtype, shape and tensor_content."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    tensor = request.inputs["x"]
    tensor.dtype = types_pb2.DT_FLOAT
    tensor.tensor_shape.dim.add(size=len(x))
    tensor.tensor_content = x.tobytes()
    return request.SerializeToString()


def _predict_output(answer: bytes) -> Array:
    return np.array(predict_pb2.PredictResponse.FromString(answer).outputs["y"].float_val, np.float32)


def _infer(model: str, given: str, wanted: str, x: Array) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name=given, datatype="FP32", shape=[len(x)])
    request.outputs.add(name=wanted)
    request.raw_input_contents.append(x.tobytes())
    return bytes(request.SerializeToString())


def _infer_output(answer: bytes) -> Array:
    return np.frombuffer(service_pb2.ModelInferResponse.FromString(answer).raw_output_contents[0], np.float32)


def _json_infer_output(answer: bytes) -> Array:
    content: dict[str, Any] = json.loads(answer)
    return np.array(content["outputs"][0]["data"], np.float32)


def _json_predict_output(answer: bytes) -> Array:
    content: dict[str, Any] = json.loads(answer)
    return np.array(content["predictions"], np.float32)
