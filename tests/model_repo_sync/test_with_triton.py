"""What this package writes, served by the real tritonserver with the runner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from model_repo_sync import names, triton_config
from model_repo_sync.policy import All
from model_repo_sync.repository import ModelRepository
from model_repo_sync.sync import Synchroniser
from model_repo_sync.triton_config import RunnerOptions
from tests.support import savedmodels
from tests.support.tritonserver import TritonServer, backend_directory

pytestmark = pytest.mark.integration

DEPLOYMENT = "0123abcd"
MODEL = "p$(touch PWN)/half_plus_two"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[Any]:
    (place / "repository").mkdir()
    with TritonServer.start(backend_directory(place / "backends"), place / "repository") as server:
        yield server.client()


@pytest.fixture(scope="module")
def repository(place: Path) -> ModelRepository:
    return ModelRepository(place / "repository", DEPLOYMENT)


def ping(client: Any, name: str) -> dict[str, Any]:
    noop = grpcclient.InferInput("bridge.noop", [1], "UINT8")
    noop.set_data_from_numpy(np.zeros(1, np.uint8))
    answer = client.infer(name, [noop], outputs=[grpcclient.InferRequestedOutput("bridge.runner")])
    about: dict[str, Any] = json.loads(answer.as_numpy("bridge.runner")[0])
    return about


def state(client: Any, name: str) -> str:
    index = client.get_model_repository_index().models
    return next((model.state for model in index if model.name == name), "absent")


@pytest.mark.parametrize("directory", ["-5", "0", "00000123", "9223372036854775807"])
def test_a_synchronised_version_answers(place: Path, client: Any, repository: ModelRepository, directory: str) -> None:
    savedmodels.half_plus_two(place / directory, directory)
    report = Synchroniser(repository, RunnerOptions()).sync(MODEL, str(place / directory), All())
    [result] = report.versions
    client.load_model(result.name)
    x = grpcclient.InferInput("x:0", [3], "FP32")
    x.set_data_from_numpy(np.array([1, 2, 5], np.float32))
    answer = client.infer(result.name, [x], outputs=[grpcclient.InferRequestedOutput("y:0")])
    assert answer.as_numpy("y:0").tolist() == [2.5, 3.0, 4.5]
    pid = ping(client, result.name)["pid"]
    again = Synchroniser(repository, RunnerOptions()).sync(MODEL, str(place / directory), All())
    assert again.versions[0].outcome == "unchanged"
    client.load_model(result.name)
    assert ping(client, result.name)["pid"] == pid
    client.unload_model(result.name)


def test_a_probe_answers_and_is_gone(client: Any, repository: ModelRepository) -> None:
    name = names.probe_name(DEPLOYMENT, "n1")
    repository.write(name, None, triton_config.probe(name, RunnerOptions()))
    client.load_model(name)
    assert ping(client, name).keys() >= {"runner", "tensorflow", "pid", "memory_bytes"}
    client.unload_model(name)
    assert repository.remove(name)
    assert state(client, name) in ("absent", "UNAVAILABLE", "UNLOADING")
