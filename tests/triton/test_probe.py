from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.serving.routes import InstanceRoute
from bridge.triton import probe as probing
from bridge.triton.instance import LoadFailure, TritonInstance
from bridge.triton.probe import ProbeFailure, probe
from model_repo_sync.repository import ModelRepository
from model_repo_sync.runner import tensorflow_engine
from tests.triton.tritonserver import Tritonserver

pytestmark = pytest.mark.integration

DEPLOYMENT = "0123abcd"


@pytest.fixture
async def instance(own_server: Tritonserver) -> AsyncIterator[TritonInstance]:
    instance = TritonInstance.connect(InstanceRoute("one", grpc=own_server.grpc, http=own_server.http))
    yield instance
    await instance.close()


def repository_at(path: Path) -> ModelRepository:
    path.mkdir(exist_ok=True)
    return ModelRepository(str(path), DEPLOYMENT)


async def test_fit_instance(instance: TritonInstance, own_server: Tritonserver) -> None:
    repository = repository_at(own_server.repository)
    report = await probe(instance, repository, "/models")
    assert report.triton.startswith("2.")
    assert report.runner.version == tensorflow_engine.__version__
    assert report.runner.tensorflow.startswith("2.")
    assert report.notes == ()
    assert repository.names() == []
    assert set(await instance.index()) == {"echo"}


async def fails(instance: TritonInstance, repository: ModelRepository) -> ProbeFailure:
    with pytest.raises(ProbeFailure) as caught:
        await probe(instance, repository, "/models")
    assert repository.names() == []
    assert caught.value.message == f"{caught.value.sentence}. {caught.value.cure}."
    return caught.value


async def test_triton_looks_elsewhere(
    instance: TritonInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "VISIBLE_SECONDS", 0.2)
    failure = await fails(instance, repository_at(tmp_path / "elsewhere"))
    assert failure.sentence == (
        f"A model written to {tmp_path}/elsewhere does not show in Triton instance one, "
        "which should see that directory as /models"
    )
    assert "--triton_repository=PATH=PATH_AS_TRITON_SEES_IT" in failure.cure


async def test_backend_is_missing(instance: TritonInstance, own_server: Tritonserver) -> None:
    (own_server.backends / "tensorflow_runner").unlink()
    failure = await fails(instance, repository_at(own_server.repository))
    assert "unable to find backend library for backend 'tensorflow_runner'" in failure.sentence
    assert "--backend-directory" in failure.cure


async def test_runner_refuses_its_surroundings(instance: TritonInstance, own_server: Tritonserver) -> None:
    runner = own_server.backends / "tensorflow_runner"
    source = runner.resolve()
    runner.unlink()
    shutil.copytree(source, runner, ignore=shutil.ignore_patterns("__pycache__"))
    engine = runner / "tensorflow_engine" / "backend.py"
    engine.write_text(engine.read_text().replace("require_numpy_1(np.__version__)", 'require_numpy_1("2.1.0")'))
    failure = await fails(instance, repository_at(own_server.repository))
    assert failure.sentence.startswith("Triton instance one cannot load a model: The runner needs numpy below 2 and")
    assert "numpy below 2" in failure.cure


async def test_nothing_listens(own_server: Tritonserver, instance: TritonInstance) -> None:
    own_server.kill()
    failure = await fails(instance, repository_at(own_server.repository))
    assert failure.sentence == f"Triton at {own_server.grpc} cannot be reached: Connection refused"
    assert "--triton_url" in failure.cure


async def test_old_triton(instance: TritonInstance, own_server: Tritonserver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "OLDEST", (99, 0))
    failure = await fails(instance, repository_at(own_server.repository))
    assert "the bridge needs at least 99.0" in failure.sentence


async def test_model_control_is_not_explicit(tmp_path: Path) -> None:
    server = Tritonserver(tmp_path / "none", "--model-control-mode=none")
    server.start()
    instance = TritonInstance.connect(InstanceRoute("one", grpc=server.grpc, http=server.http))
    try:
        failure = await fails(instance, repository_at(server.repository))
        assert failure.cure == "Start Triton with --model-control-mode=explicit"
    finally:
        await instance.close()
        server.stop()


async def test_strict_readiness_is_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Tritonserver(tmp_path / "strict", "--strict-readiness=true")
    server.start()
    instance = TritonInstance.connect(InstanceRoute("one", grpc=server.grpc, http=server.http))
    try:
        server.add_echo("broken")
        (server.backends / "echo" / "model.py").write_text("raise RuntimeError")
        with pytest.raises(LoadFailure):
            await instance.load("broken", 20)
        with caplog.at_level(logging.WARNING):
            report = await probe(instance, repository_at(server.repository), "/models")
        assert any("--strict-readiness=false" in note for note in report.notes)
        assert "--strict-readiness=false" in caplog.text
    finally:
        await instance.close()
        server.stop()


async def test_auto_completion_is_noted(tmp_path: Path) -> None:
    server = Tritonserver(tmp_path / "completing", auto_complete=True)
    server.start()
    instance = TritonInstance.connect(InstanceRoute("one", grpc=server.grpc, http=server.http))
    try:
        report = await probe(instance, repository_at(server.repository), "/models")
        assert [note for note in report.notes if "--disable-auto-complete-config" in note]
    finally:
        await instance.close()
        server.stop()
