"""Each request is told once to whoever counts, with the status that its client saw."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from bridge.errors import Code
from model_repo_sync.protos.tensorflow_serving import predict_pb2
from tests.tfserving.conftest import Ask, request
from tests.tfserving.server_thread import ServerThread, until

BODY = '{"instances": [1.0]}'


@pytest.fixture
def told(server: ServerThread) -> list[tuple[str, str, Code]]:
    server.observed.clear()
    return server.observed


@pytest.mark.parametrize(
    ("rpc", "spec", "expected"),
    [
        ("status", {"name": "half"}, ("GetModelStatus", Code.OK)),
        ("status", {"name": "no"}, ("GetModelStatus", Code.NOT_FOUND)),
        ("metadata", {"name": "half"}, ("GetModelMetadata", Code.INVALID_ARGUMENT)),
        ("predict", {"name": "no"}, ("Predict", Code.NOT_FOUND)),
    ],
)
def test_grpc(
    ask: Ask, told: list[tuple[str, str, Code]], rpc: str, spec: dict[str, Any], expected: tuple[str, Code]
) -> None:
    ask(rpc, spec=spec)
    until(lambda: told == [("grpc", *expected)])


@pytest.mark.parametrize(
    ("method", "target", "body", "expected"),
    [
        ("POST", "/v1/models/half:predict", BODY, ("predict", Code.OK)),
        ("POST", "/v1/models/half:predict", "{", ("predict", Code.INVALID_ARGUMENT)),
        ("POST", "/v1/models/no:predict", BODY, ("predict", Code.NOT_FOUND)),
        ("GET", "/v1/models/half", "", ("status", Code.OK)),
        ("GET", "/v1/models/half/metadata", "", ("metadata", Code.OK)),
        ("GET", "/v1/models/half/versions/99999999999999999999", "", ("malformed", Code.INVALID_ARGUMENT)),
        ("POST", "/v1/models/half", "", ("malformed", Code.INVALID_ARGUMENT)),
    ],
)
def test_rest(
    server: ServerThread,
    told: list[tuple[str, str, Code]],
    method: str,
    target: str,
    body: str,
    expected: tuple[str, Code],
) -> None:
    request(server, method, target, body)
    until(lambda: told == [("rest", *expected)])


def test_a_client_that_gives_up(server: ServerThread, told: list[tuple[str, str, Code]]) -> None:
    method = "/tensorflow.serving.PredictionService/Predict"
    server.hold(True)
    calls = len(server.leg.calls)
    predict = predict_pb2.PredictRequest(model_spec={"name": "half"})
    predict.inputs["x"].dtype = 1
    predict.inputs["x"].float_val.append(1.0)
    try:
        with grpc.insecure_channel(server.address) as channel:
            call = channel.unary_unary(method).future(predict.SerializeToString())
            until(lambda: len(server.leg.calls) > calls)
            call.cancel()
            until(lambda: told == [("grpc", "Predict", Code.CANCELLED)])
    finally:
        server.hold(False)
