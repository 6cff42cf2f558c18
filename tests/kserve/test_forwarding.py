"""Ready Triton models behind the bridge: requests pass through with the name replaced, on a real Triton."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from bridge.serving.routes import InstanceRoute, RegisteredRoute, Routes, V2Route, VModelRoute
from bridge.triton.leg import open_leg
from model_repo_sync.protos.tensorflow_serving import predict_pb2
from tests.kserve import triton_models
from tests.serving import snapshots
from tests.support.tritonserver import TritonServer, backend_directory
from tests.tfserving.server_thread import ServerThread

pytestmark = pytest.mark.integration

KINDS = ("double", "repeat", "sum")


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    directory = tmp_path_factory.mktemp("triton")
    for kind in KINDS:
        triton_models.write(directory / "repository", kind, f"mm.{kind}.1")
    with TritonServer.start(backend_directory(directory / "backends"), directory / "repository") as triton:
        for kind in KINDS:
            triton.client().load_model(f"mm.{kind}.1")
        yield triton


def routes(triton: TritonServer, epoch: int = 1, *, http_only: bool = False) -> Routes:
    """The models by the names of their kinds, and the vmodel `v` of `double`."""
    grpc_address = "" if http_only else f"127.0.0.1:{triton.grpc_port}"
    one = InstanceRoute("one", grpc=grpc_address, http=f"127.0.0.1:{triton.http_port}")
    models = {kind: RegisteredRoute(kind, v2=V2Route(kind, f"mm.{kind}.1", ("one",))) for kind in KINDS}
    return replace(
        snapshots.routes(epoch=epoch),
        instances={"one": one},
        registered=models,
        vmodels={"v": VModelRoute("v", "double")},
    )


@pytest.fixture(scope="module")
def server(triton: TritonServer) -> Iterator[ServerThread]:
    server = ServerThread(open_leg=open_leg)
    server.publish(routes(triton))
    yield server
    server.close()


@pytest.fixture(scope="module")
def client(server: ServerThread) -> Iterator[grpcclient.InferenceServerClient]:
    with grpcclient.InferenceServerClient(server.address) as client:
        yield client


def x(*values: float, module: Any = grpcclient) -> list[Any]:
    item = module.InferInput("x", [len(values)], "FP32")
    item.set_data_from_numpy(np.array(values, np.float32))
    return [item]


@pytest.mark.parametrize("name", ["double", "v"])
def test_inference(client: grpcclient.InferenceServerClient, name: str) -> None:
    result = client.infer(name, x(1, 2.5), model_version="1", request_id="7", timeout=10_000_000)
    response = result.get_response()
    assert (response.model_name, response.model_version, response.id) == (name, "1", "7")
    assert result.as_numpy("y").tolist() == [2.0, 5.0]


@pytest.mark.parametrize("binary", [False, True])
def test_inference_over_rest(server: ServerThread, binary: bool) -> None:
    client = httpclient.InferenceServerClient(f"127.0.0.1:{server.rest_port}")
    outputs = [httpclient.InferRequestedOutput("y", binary_data=binary)]
    result = client.infer("v", x(1, 2.5, module=httpclient), outputs=outputs)
    assert (result.get_response()["model_name"], result.as_numpy("y").tolist()) == ("v", [2.0, 5.0])
    assert client.get_model_metadata("v")["name"] == "v"
    config = client.get_model_config("double")
    assert (config["name"], config["backend"]) == ("double", "python")
    assert config["input"][0]["dims"] == [-1]
    client.close()


def test_descriptions(client: grpcclient.InferenceServerClient) -> None:
    metadata = client.get_model_metadata("v")
    assert (metadata.name, metadata.platform, [item.name for item in metadata.inputs]) == ("v", "python", ["x"])
    assert client.get_model_config("v").config.name == "v"
    assert client.is_model_ready("v")
    client.infer("v", x(1))
    [row] = client.get_inference_statistics("v").model_stats
    assert (row.name, row.version) == ("v", "1")
    assert row.inference_count >= 1


def test_tritons_own_errors(client: grpcclient.InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException, match="x is negative") as caught:
        client.infer("double", x(-1))
    assert caught.value.status() == "StatusCode.INTERNAL"
    with pytest.raises(InferenceServerException, match="unexpected inference output 'nope' for model 'v'"):
        client.infer("v", x(1), outputs=[grpcclient.InferRequestedOutput("nope")])


def test_predict_is_refused_with_a_sentence(server: ServerThread) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "double"
    with grpc.insecure_channel(server.address) as channel:
        predict = channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict",
            request_serializer=predict_pb2.PredictRequest.SerializeToString,
        )
        with pytest.raises(grpc.RpcError) as caught:
            predict(request, timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == "Model double is no SavedModel: it takes KServe V2 inference only."


class Conversation:
    """One stream; `answers` are (request id, output y or None, error)."""

    def __init__(self, client: grpcclient.InferenceServerClient) -> None:
        self.client = client
        self.answers: list[tuple[str, Any, str]] = []

    def __enter__(self) -> Conversation:
        self.client.start_stream(callback=self._answered)
        return self

    def __exit__(self, *error: object) -> None:
        self.client.stop_stream()

    def ask(self, model: str, *values: float, id: str = "", **options: Any) -> None:
        self.client.async_stream_infer(model, x(*values), request_id=id, **options)

    def _answered(self, result: Any, error: Any) -> None:
        if error is not None:
            self.answers.append(("", None, str(error)))
            return
        response = result.get_response()
        y = result.as_numpy("y")
        self.answers.append((response.id, None if y is None else y.tolist(), response.model_name))


def test_a_model_that_answers_often(client: grpcclient.InferenceServerClient) -> None:
    with Conversation(client) as talk:
        talk.ask("repeat", 1, 2, 3, id="a")
        talk.ask("double", 5, id="b")
    assert [answer for answer in talk.answers if answer[0] == "a"] == [("a", [value], "repeat") for value in (1, 2, 3)]
    assert ("b", [10.0], "double") in talk.answers
    assert len(talk.answers) == 4


def test_a_final_response_where_it_is_asked_for(client: grpcclient.InferenceServerClient) -> None:
    with Conversation(client) as talk:
        talk.ask("repeat", 1, 2, id="a", enable_empty_final_response=True)
    assert [y for _, y, _ in talk.answers] == [[1.0], [2.0], None]


def test_sequences_run_in_order(client: grpcclient.InferenceServerClient) -> None:
    with Conversation(client) as talk:
        for number in range(20):
            for sequence in (1, 2):
                talk.ask(
                    "sum",
                    sequence,
                    id=f"{sequence}.{number}",
                    sequence_id=sequence,
                    sequence_start=number == 0,
                    sequence_end=number == 19,
                )
    answers = {id: y for id, y, _ in talk.answers}
    assert answers == {f"{s}.{n}": [float(s * (n + 1))] for s in (1, 2) for n in range(20)}


def test_errors_end_a_request_and_not_the_stream(client: grpcclient.InferenceServerClient) -> None:
    with Conversation(client) as talk:
        talk.ask("double", -1)
        talk.ask("nope", 1)
        talk.ask("double", 1)
    assert sorted("negative" in error or "'nope' is not found" in error for _, _, error in talk.answers) == [
        False,
        True,
        True,
    ]


def test_a_triton_without_grpc_takes_no_such_calls(triton: TritonServer) -> None:
    server = ServerThread(open_leg=open_leg)
    server.publish(routes(triton, http_only=True))
    with grpcclient.InferenceServerClient(server.address) as client:
        with pytest.raises(InferenceServerException, match="needs its gRPC port") as caught:
            client.infer("double", x(1))
        assert caught.value.status() == "StatusCode.UNIMPLEMENTED"
    server.close()
