"""Inference on registered models and vmodels: KServe V2 and Predict, by name and by metadata, on every port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from model_repo_sync.protos.tensorflow_serving import get_model_metadata_pb2, get_model_status_pb2, predict_pb2
from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import export

pytestmark = pytest.mark.integration

FOUND = {"m1": 1.0, "m2": 2.0, "v": 1.0, "both": 3.0}
"""The bias of the models behind the names; `both` is a vmodel of m2, too."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("mesh")
    for version in (1, 2):
        export(directory / "root" / f"m{version}", version)
    (directory / "root" / "m3" / "1").mkdir(parents=True)
    export(directory / "served", 3)
    flags = [f"--model_root={directory / 'root'}", "--model_name=both", f"--model_base_path={directory / 'served'}"]
    flags += ["--modelmesh_second_copies=false", "--triton_capacity_bytes=4000000000"]
    with BridgeServer(directory / "bridge", *flags) as server:
        with ModelMeshClient(server.modelmesh) as mesh:
            for name in ("m1", "m2", "m3", "cold_v2", "cold_predict", "cold_rest", "cold_ready"):
                path = name if name.startswith("m") else "m2"
                mesh("registerModel", modelId=name, modelInfo={"type": "tensorflow", "path": path})
            for name, target in (("v", "m1"), ("both", "m2"), ("broken", "m3")):
                mesh("setVModel", vModelId=name, targetModelId=target)
        yield server


@pytest.fixture(scope="module", params=["modelmesh", "grpc"])
def port(request: pytest.FixtureRequest, server: BridgeServer) -> str:
    """The address of the ModelMesh port, and of the gRPC port of TF Serving's clients."""
    address: str = getattr(server, request.param)
    return address


X = np.array([[0.0]], np.float32)


def v2(address: str, name: str = "", headers: dict[str, str] | None = None, **options: Any) -> tuple[str, float]:
    """The name in a ModelInfer response, and the bias of the model that gave it."""
    x = grpcclient.InferInput("x", [1, 1], "FP32")
    x.set_data_from_numpy(X)
    with grpcclient.InferenceServerClient(address) as client:
        result = client.infer(name, [x], headers=headers, client_timeout=60, **options)
        return result.get_response().model_name, float(result.as_numpy("y")[0, 0])


def call(address: str, method: str, request: Any, response: Any, metadata: Any = ()) -> Any:
    with grpc.insecure_channel(address) as channel:
        rpc = channel.unary_unary(
            f"/tensorflow.serving.{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return rpc(request, timeout=60, metadata=metadata)


def predict(address: str, name: str = "", metadata: Any = ()) -> tuple[str, float]:
    """The name in a Predict response, and the bias of the model that gave it."""
    request = predict_pb2.PredictRequest()
    if name:
        request.model_spec.name = name
    x = request.inputs["x"]
    x.dtype = 1
    x.tensor_shape.dim.add(size=1)
    x.float_val.append(0)
    answer = call(address, "PredictionService/Predict", request, predict_pb2.PredictResponse, metadata)
    return answer.model_spec.name, answer.outputs["y"].float_val[0]


@pytest.mark.parametrize("name", ["m1", "m2", "v"])
def test_names(port: str, name: str) -> None:
    assert v2(port, name) == predict(port, name) == (name, FOUND[name])


def test_each_port_has_its_order(server: BridgeServer) -> None:
    assert v2(server.grpc, "both") == predict(server.grpc, "both") == ("both", 3.0)
    assert v2(server.modelmesh, "both") == predict(server.modelmesh, "both") == ("both", 2.0)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ([("mm-model-id", "m2")], "m2"),
        ([("mm-vmodel-id", "v")], "v"),
        ([("mm-model-id-bin", b"m2")], "m2"),
        ([("mm-vmodel-id-bin", b"v")], "v"),
    ],
)
def test_metadata(port: str, metadata: list[tuple[str, Any]], name: str) -> None:
    assert predict(port, metadata=metadata) == (name, FOUND[name])
    if isinstance(metadata[0][1], str):
        assert v2(port, headers=dict(metadata)) == (name, FOUND[name])


def test_a_name_in_the_message_wins(port: str) -> None:
    assert v2(port, "m1", headers={"mm-model-id": "m2"}) == predict(port, "m1", [("mm-model-id", "m2")]) == ("m1", 1.0)


@pytest.mark.parametrize(
    ("name", "metadata", "code", "text"),
    [
        ("", [], "INVALID_ARGUMENT", "must include mm-model-id header"),
        (
            "",
            [("mm-model-id", "m1"), ("mm-vmodel-id", "v")],
            "INVALID_ARGUMENT",
            "must include only one of model id and vmodel id",
        ),
        ("", [("mm-model-id", "")], "INVALID_ARGUMENT", "provided model-id header must be non-empty"),
        ("", [("mm-model-id", "nope")], "NOT_FOUND", "model not found"),
        ("", [("mm-model-id", "v")], "NOT_FOUND", "model not found"),
        ("", [("mm-vmodel-id", "nope")], "NOT_FOUND", "vmodel not found"),
        ("nope", [], "NOT_FOUND", "vmodel not found"),
    ],
)
def test_errors_of_modelmesh(server: BridgeServer, name: str, metadata: Any, code: str, text: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        predict(server.modelmesh, name, metadata)
    assert (caught.value.code().name, caught.value.details()) == (code, text)
    with pytest.raises(InferenceServerException) as refused:
        v2(server.modelmesh, name, dict(metadata))
    assert (refused.value.status(), refused.value.message()) == (f"StatusCode.{code}", text)


def test_a_load_that_fails_is_told(port: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        predict(port, "broken")
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    with pytest.raises(InferenceServerException) as refused:
        v2(port, "broken")
    assert refused.value.status() == "StatusCode.INTERNAL"


def test_requests_load_their_models(server: BridgeServer) -> None:
    assert v2(server.modelmesh, "cold_v2") == ("cold_v2", 2.0)
    assert predict(server.grpc, "cold_predict") == ("cold_predict", 2.0)
    answer = server.request("POST", "/v1/models/cold_rest:predict", '{"instances": [0.0]}')
    assert answer.json == {"predictions": [2.0]}
    with grpcclient.InferenceServerClient(server.modelmesh) as client:
        assert client.is_model_ready("cold_ready")
        assert not client.is_model_ready("broken")
        assert not client.is_model_ready("nope")


def test_what_is_said_of_a_vmodel(server: BridgeServer) -> None:
    v2(server.grpc, "v")
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "v"
    kind = get_model_metadata_pb2.GetModelMetadataResponse
    assert call(server.modelmesh, "PredictionService/GetModelMetadata", request, kind).model_spec.name == "v"
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "v"
    kind = get_model_status_pb2.GetModelStatusResponse
    [version] = call(server.grpc, "ModelService/GetModelStatus", status, kind).model_version_status
    assert version.state == 30
    with grpcclient.InferenceServerClient(server.modelmesh) as client:
        metadata = client.get_model_metadata("v")
        assert (metadata.name, [item.name for item in metadata.inputs]) == ("v", ["x"])
        rows = {row.name: row.state for row in client.get_model_repository_index().models}
    assert (rows["v"], rows["m3"]) == ("READY", "UNAVAILABLE")


def test_v2_over_rest(server: BridgeServer) -> None:
    client = httpclient.InferenceServerClient(server.rest)
    x = httpclient.InferInput("x", [1, 1], "FP32")
    x.set_data_from_numpy(X)
    result = client.infer("v", [x])
    assert (result.get_response()["model_name"], result.as_numpy("y").tolist()) == ("v", [[1.0]])
    client.close()


def test_a_vmodel_moves_without_a_failed_or_wrong_answer(server: BridgeServer) -> None:
    """Requests on both protocols go on while the vmodel goes from m1 to m2, to a broken model, and back."""
    answers: list[tuple[str, float]] = []
    errors: list[BaseException] = []
    stop = threading.Event()

    def loop(ask: Any) -> None:
        try:
            while not stop.is_set():
                answers.append(ask(server.modelmesh, "canary"))
        except BaseException as error:
            errors.append(error)

    with ModelMeshClient(server.modelmesh) as mesh:
        mesh("setVModel", vModelId="canary", targetModelId="m1", loadNow=True, sync=True)
        threads = [threading.Thread(target=loop, args=(ask,)) for ask in (v2, predict)]
        for thread in threads:
            thread.start()
        moves = [mesh("setVModel", vModelId="canary", targetModelId=id, sync=True) for id in ("m2", "m3", "m2", "m1")]
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert {name for name, _ in answers} == {"canary"}
    assert {bias for _, bias in answers} == {1.0, 2.0}
    assert [move.activeModelId for move in moves] == ["m2", "m2", "m2", "m1"]
