"""The sidecar under a scripted ModelMesh: start, purge, loads, cancellation, unloads, restarts, on a real Triton."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack, unpack
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2

from tests.support import savedmodels
from tests.support.modelmesh_caller import ModelMeshCaller
from tests.support.official_client import OfficialClient, export
from tests.support.runtime_server import RuntimeServer
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

CAPACITY = 4_000_000_000
FLAGS = (f"--triton_capacity_bytes={CAPACITY}", "--model_load_timeout_seconds=60", "--load_concurrency=2")
STRANGE = ("a/b c", "..", "x'\"$(touch /tmp/no)`", "模型", "m" * 300)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models")
    for version in (1, 2):
        export(directory / f"m{version}", version)
    (directory / "broken" / "1").mkdir(parents=True)
    (directory / "broken" / "1" / "saved_model.pb").write_bytes(b"no SavedModel")
    savedmodels.make("half_plus_two", directory / "bare")
    return directory


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[RuntimeServer]:
    with RuntimeServer(tmp_path_factory.mktemp("sidecar"), f"--model_root={models}", *FLAGS) as server:
        yield server


@pytest.fixture
def mesh(sidecar: RuntimeServer) -> Iterator[ModelMeshCaller]:
    """A ModelMesh that has just started, so the sidecar holds nothing."""
    with ModelMeshCaller(sidecar.address) as mesh:
        mesh.start()
        yield mesh


def infer(mesh: ModelMeshCaller, id: str, value: float = 2.0) -> float:
    """What the model makes of a number: half of it plus its version."""
    request = service_pb2.ModelInferRequest(model_name="the client's name for it")
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    request.raw_input_contents.append(pack("<f", value))
    answer = mesh.infer(id, request)
    assert answer.model_name == id
    return float(unpack("<f", answer.raw_output_contents[0])[0])


def missing(mesh: ModelMeshCaller, id: str) -> str:
    """The code that a request for a model gets."""
    with pytest.raises(grpc.RpcError) as caught:
        infer(mesh, id)
    return str(caught.value.code().name)


def test_status(mesh: ModelMeshCaller) -> None:
    status = mesh.status
    assert status.capacityInBytes == CAPACITY
    assert (status.maxLoadingConcurrency, status.modelLoadingTimeoutMs) == (2, 60_000)
    assert (status.limitModelConcurrency, status.allowAnyMethod) == (False, False)
    assert status.runtimeVersion.startswith("triton-bridge ")
    paths = {method: list(info.idInjectionPath) for method, info in status.methodInfos.items()}
    assert paths["inference.GRPCInferenceService/ModelInfer"] == [1]
    assert paths["inference.GRPCInferenceService/ModelMetadata"] == [1]
    assert paths["tensorflow.serving.PredictionService/Predict"] == [1, 1]


def test_starting_before_triton_is_up(tmp_path: Path, models: Path) -> None:
    listen = f"unix:{tmp_path}/grpc.sock"
    with (
        RuntimeServer(
            tmp_path / "sidecar", f"--model_root={models}", "--max_concurrency=3", *FLAGS, listen=listen
        ) as server,
        ModelMeshCaller(server.address) as mesh,
    ):
        mesh.start()
        assert mesh.polls[0] == "STARTING"
        assert mesh.status.limitModelConcurrency
        mesh.load("model", path="m1")
        assert server.terminate() == 0


def test_load_and_unload(sidecar: RuntimeServer, mesh: ModelMeshCaller, client: OfficialClient) -> None:
    size = mesh.load("one", path="m1")
    assert size > 10_000_000
    assert infer(mesh, "one") == 2.0
    answer = client.predict(sidecar.address, [2.0], name="one")
    assert answer["outputs"]["y"]["values"] == [2.0]
    assert mesh.call("modelSize", modelId="one").sizeInBytes > 10_000_000
    mesh.unload("one")
    assert sidecar.runners == []
    assert sidecar.models == []
    assert missing(mesh, "one") == "NOT_FOUND"
    assert client.predict(sidecar.address, [2.0], name="one")["code"] == "NOT_FOUND"
    with pytest.raises(grpc.RpcError) as caught:
        mesh.call("modelSize", modelId="one")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_loading_again_is_no_second_copy(sidecar: RuntimeServer, mesh: ModelMeshCaller) -> None:
    mesh.load("again", path="m1")
    [before] = sidecar.runners
    mesh.load("again", path="m1")
    assert sidecar.runners == [before]
    mesh.load("again", path="m2")
    assert infer(mesh, "again") == 3.0
    assert len(sidecar.models) == 1


def test_unknown_models_unload_at_once(mesh: ModelMeshCaller) -> None:
    mesh.call("unloadModel", modelId="never heard of", timeout=1.0)


def test_predicted_size(mesh: ModelMeshCaller) -> None:
    default = mesh.status.defaultModelSizeInBytes
    model: dict[str, Any] = {"modelId": "m", "modelType": "tensorflow", "modelPath": "nowhere"}
    assert mesh.call("predictModelSize", **model).sizeInBytes == default
    key = json.dumps({"disk_size_bytes": 10 * default})
    assert mesh.call("predictModelSize", modelKey=key, **model).sizeInBytes >= 10 * default


FAILURES = [
    ({"path": "nowhere"}, "NOT_FOUND"),
    ({"path": "broken"}, "DATA_LOSS"),
    ({"path": "../m1"}, "INVALID_ARGUMENT"),
    ({"path": "m1", "type": "cobol"}, "INVALID_ARGUMENT"),
]


@pytest.mark.parametrize(("model", "code"), FAILURES)
def test_load_failures(sidecar: RuntimeServer, mesh: ModelMeshCaller, model: dict[str, str], code: str) -> None:
    failure = mesh.fails_to_load("broken", **model)
    assert failure.code == code, failure
    assert failure.text
    assert sidecar.models == []
    mesh.load("broken", path="m1")
    assert infer(mesh, "broken") == 2.0


def test_empty_ids_are_refused(mesh: ModelMeshCaller) -> None:
    for method in ("loadModel", "unloadModel", "modelSize"):
        with pytest.raises(grpc.RpcError) as caught:
            mesh.call(method)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("after", [0.0, 0.05, 0.3])
def test_cancelled_loads_leave_nothing(sidecar: RuntimeServer, mesh: ModelMeshCaller, after: float) -> None:
    mesh.load_and_cancel("given up", path="m1", after=after)
    mesh.unload("given up")
    assert sidecar.runners == []
    assert sidecar.models == []
    assert missing(mesh, "given up") == "NOT_FOUND"
    mesh.load("given up", path="m2")
    assert infer(mesh, "given up") == 3.0


def test_a_cancelled_load_that_nobody_unloads_is_undone(sidecar: RuntimeServer, mesh: ModelMeshCaller) -> None:
    mesh.load_and_cancel("forgotten", path="m1", after=0.3)
    wait_for(lambda: not sidecar.models and not sidecar.runners, 20, "the load was undone")
    assert missing(mesh, "forgotten") == "NOT_FOUND"


def test_a_load_right_after_a_cancelled_one(mesh: ModelMeshCaller) -> None:
    mesh.load_and_cancel("hurried", path="m1", after=0.2)
    mesh.load("hurried", path="m2")
    assert infer(mesh, "hurried") == 3.0


def test_strange_ids(sidecar: RuntimeServer, mesh: ModelMeshCaller) -> None:
    for id in STRANGE:
        mesh.load(id, path="bare")
        assert infer(mesh, id) == 3.0
        mesh.unload(id)
    assert sidecar.models == []


def test_a_new_modelmesh_finds_nothing_loaded(sidecar: RuntimeServer, mesh: ModelMeshCaller) -> None:
    mesh.load("left", path="m1")
    with ModelMeshCaller(sidecar.address) as other:
        other.start()
        assert sidecar.runners == []
        assert sidecar.models == []
        assert missing(other, "left") == "NOT_FOUND"


def test_overlapping_polls_share_one_purge(sidecar: RuntimeServer, mesh: ModelMeshCaller) -> None:
    mesh.load("left", path="m1")
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: mesh.call("runtimeStatus"), range(4)))
    assert {answer.status for answer in answers} == {answers[0].READY}
    assert sidecar.models == []


def test_a_restarted_sidecar_starts_empty_and_under_the_same_names(tmp_path: Path, models: Path) -> None:
    server = RuntimeServer(tmp_path / "sidecar", f"--model_root={models}", *FLAGS)
    with server, ModelMeshCaller(server.address) as mesh:
        mesh.start()
        mesh.load("left", path="m1")
        [before] = server.models
        server.kill()
        server.start()
        with ModelMeshCaller(server.address) as other:
            other.start()
            assert server.models == []
            other.load("left", path="m2")
            [after] = server.models
            assert after.split(".")[:3] == before.split(".")[:3]
            assert after != before
            assert infer(other, "left") == 3.0


def test_a_dead_runner_comes_back(sidecar: RuntimeServer, mesh: ModelMeshCaller) -> None:
    mesh.load("mortal", path="m1")
    [runner] = sidecar.runners
    runner.kill()

    def answers() -> bool:
        try:
            return infer(mesh, "mortal") == 2.0
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False

    wait_for(answers, 30, "the model answers again")
    mesh.unload("mortal")
    assert sidecar.runners == []
