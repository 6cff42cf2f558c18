"""Requests of KServe's V2 protocol that are answered, from which the mutations start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2

from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from tests.fuzz.requests import Rpc
from tests.fuzz.vocabulary import MODEL

SERVICE = "inference.GRPCInferenceService"
CODES = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "DEADLINE_EXCEEDED"})
"""A request may bring a timeout of its own."""
NO_HEADER = 0xFFFF
"""In place of a JSON length: the body is JSON alone."""

_MESSAGES: dict[str, list[Any]] = {
    "ModelInfer": [],
    "ModelReady": [service_pb2.ModelReadyRequest(name=MODEL, version="1")],
    "ModelMetadata": [service_pb2.ModelMetadataRequest(name=MODEL)],
    "ModelConfig": [service_pb2.ModelConfigRequest(name="strings")],
    "RepositoryIndex": [service_pb2.RepositoryIndexRequest(ready=True)],
    "ServerMetadata": [service_pb2.ServerMetadataRequest()],
    "ServerLive": [service_pb2.ServerLiveRequest()],
    "ServerReady": [service_pb2.ServerReadyRequest()],
    "RepositoryModelLoad": [service_pb2.RepositoryModelLoadRequest(model_name=MODEL)],
    "SystemSharedMemoryRegister": [service_pb2.SystemSharedMemoryRegisterRequest(name="a")],
}

RPCS = tuple(
    Rpc(SERVICE, name, service_pb2.ModelInferRequest if name == "ModelInfer" else type(good[0]), CODES)
    for name, good in _MESSAGES.items()
)


def messages() -> Sequence[tuple[Rpc, bytes]]:
    """Good requests to each RPC."""
    made: dict[str, Sequence[Message]] = {**_MESSAGES, "ModelInfer": _infer()}
    return [(rpc, request.SerializeToString()) for rpc in RPCS for request in made[rpc.name]]


def _infer() -> list[Message]:
    request = service_pb2.ModelInferRequest
    typed = {"name": "x", "datatype": "FP32", "shape": [3], "contents": {"fp32_contents": [1, 2, 5]}}
    raw = {"name": "x", "datatype": "FP32", "shape": [1, 1]}
    words = {"name": "words", "datatype": "BYTES", "shape": [2], "contents": {"bytes_contents": [b"a", b"\xff"]}}
    made = [
        request(model_name=MODEL, model_version="1", id="7", inputs=[typed], outputs=[{"name": "y"}]),
        request(model_name=MODEL, inputs=[raw], raw_input_contents=[bytes(4)]),
        request(model_name="strings", inputs=[words]),
    ]
    made[1].parameters["signature_name"].string_param = "serving_default"
    made[1].parameters["timeout"].int64_param = 5_000_000
    for dtype in DTYPES.values():
        tensor = {"name": "x", "datatype": dtype.triton, "shape": [2]}
        one = request(model_name="dtypes", inputs=[tensor], raw_input_contents=[bytes(2 * dtype.itemsize)])
        one.parameters["signature_name"].string_param = dtype.name
        made.append(one)
    return made


TARGETS = (
    f"/v2/models/{MODEL}/infer",
    f"/v2/models/{MODEL}/versions/1/infer",
    "/v2/models/dtypes/infer",
    "/v2/models/strings/infer",
    "/v2/models/odd/infer",
    "/v2/repository/index",
)


def bodies() -> Sequence[tuple[int, int, bytes]]:
    """Good bodies, each with the position of its target and the length of its JSON, or NO_HEADER."""
    x = {"name": "x", "datatype": "FP32", "shape": [3], "data": [1.0, 2, 5]}
    words = {"name": "words", "datatype": "BYTES", "shape": [1, 2], "data": [["a", "b"]]}
    plain: list[tuple[int, Any]] = [
        (0, {"inputs": [x]}),
        (1, {"id": "7", "inputs": [x], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}),
        (0, {"inputs": [x], "parameters": {"signature_name": "serving_default", "binary_data_output": True}}),
        (3, {"inputs": [words]}),
        (5, {"ready": True}),
    ]
    for dtype in DTYPES.values():
        tensor = {"name": "x", "datatype": dtype.triton, "shape": [2], "data": [1, 0]}
        plain.append((2, {"inputs": [tensor], "parameters": {"signature_name": dtype.name}}))
    binary = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "parameters": {"binary_data_size": 12}}]}
    head = json.dumps(binary).encode()
    texts = [(target, NO_HEADER, json.dumps(body).encode()) for target, body in plain]
    return [*texts, (0, len(head), head + bytes(12))]
