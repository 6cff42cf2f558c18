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
from tritonclient.grpc import service_pb2

from benchmarks.h2load import Load, run
from benchmarks.payloads import Array, Payload
from model_repo_sync.protos.tensorflow import types_pb2
from model_repo_sync.protos.tensorflow_serving import predict_pb2

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
TIMEOUT_SECONDS = 60.0
INFER = "/inference.GRPCInferenceService/ModelInfer"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
FRAME = struct.Struct(">BI")
LENGTH = struct.Struct("<I")

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


def predict_call(path: str, address: str, payload: Payload) -> GrpcCall:
    """Predict to a bridge."""
    return GrpcCall(path, address, PREDICT, _predict(payload), _predict_output, payload.expected)


def infer_call(path: str, address: str, triton_model: str, payload: Payload) -> GrpcCall:
    """ModelInfer to the model that the bridge made of the payload's."""
    return GrpcCall(
        path, address, INFER, _infer(triton_model, "x:0", "y:0", payload.x), _infer_output, payload.expected
    )


def identity_call(path: str, address: str, triton_model: str, payload: Payload) -> GrpcCall:
    """ModelInfer to the bare model, which answers what it is sent."""
    return GrpcCall(path, address, INFER, _infer(triton_model, "x", "y", payload.x), _infer_output, payload.x)


def rest_predict_call(path: str, address: str, payload: Payload, *, row: bool) -> RestCall:
    """A predict request in row or column format to a bridge."""
    body = b'{"%s": %s}' % (b"instances" if row else b"inputs", _numbers(payload.x))
    target, key = f"/v1/models/{payload.model}:predict", "predictions" if row else "outputs"
    return RestCall(path, address, target, body, lambda answer: _floats(json.loads(answer)[key]), payload.expected)


def rest_infer_call(path: str, address: str, triton_model: str, payload: Payload) -> RestCall:
    """Triton's own JSON."""
    given = b'{"name": "x:0", "datatype": "FP32", "shape": [%d], "data": %s}' % (len(payload.x), _numbers(payload.x))
    body = b'{"inputs": [%s], "outputs": [{"name": "y:0"}]}' % given
    return RestCall(path, address, f"/v2/models/{triton_model}/infer", body, _json_infer_output, payload.expected)


def _numbers(x: Array) -> bytes:
    """As many digits as each value needs, nine at most."""
    return f"[{','.join(f'{value:.9g}' for value in x.tolist())}]".encode()


def _predict(payload: Payload) -> bytes:
    """As the official client's make_tensor_proto writes it: dtype, shape, and tensor_content where it is numbers."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = payload.model
    tensor = request.inputs["x"]
    tensor.tensor_shape.dim.add(size=len(payload.x))
    if payload.x.dtype == object:
        tensor.dtype = types_pb2.DT_STRING
        tensor.string_val.extend(payload.x)
    else:
        tensor.dtype = types_pb2.DT_FLOAT
        tensor.tensor_content = payload.x.tobytes()
    return request.SerializeToString()


def _predict_output(answer: bytes) -> Array:
    tensor = predict_pb2.PredictResponse.FromString(answer).outputs["y"]
    if tensor.dtype == types_pb2.DT_STRING:
        return np.array([*tensor.string_val], object)
    return np.array(tensor.float_val, np.float32)


def _infer(model: str, given: str, wanted: str, x: Array) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name=given, datatype="BYTES" if x.dtype == object else "FP32", shape=[len(x)])
    request.outputs.add(name=wanted)
    request.raw_input_contents.append(_raw(x))
    return bytes(request.SerializeToString())


def _raw(x: Array) -> bytes:
    if x.dtype == object:
        return b"".join(LENGTH.pack(len(value)) + value for value in x)
    return x.tobytes()


def _infer_output(answer: bytes) -> Array:
    response = service_pb2.ModelInferResponse.FromString(answer)
    raw = response.raw_output_contents[0]
    return _strings(raw) if response.outputs[0].datatype == "BYTES" else np.frombuffer(raw, np.float32)


def _strings(raw: bytes) -> Array:
    values, at = [], 0
    while at < len(raw):
        (length,) = LENGTH.unpack_from(raw, at)
        at += LENGTH.size + length
        values.append(raw[at - length : at])
    return np.array(values, object)


def _json_infer_output(answer: bytes) -> Array:
    return _floats(json.loads(answer)["outputs"][0]["data"])


def _floats(values: list[float]) -> Array:
    return np.array(values, np.float32)
