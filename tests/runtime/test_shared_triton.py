"""Two sidecars and somebody else's model on one Triton: each takes off its own models only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.modelmesh_caller import ModelMeshCaller
from tests.support.official_client import export
from tests.support.runtime_server import RuntimeServer
from tests.support.tritonserver import TritonServer, backend_directory

pytestmark = pytest.mark.integration

FOREIGN_CONFIG = """
name: "foreign"
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
instance_group { kind: KIND_CPU }
"""
FOREIGN_MODEL = """
class TritonPythonModel:
    def execute(self, requests):
        return []
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a model of somebody else."""
    repository = tmp_path / "repository"
    (repository / "foreign" / "1").mkdir(parents=True)
    (repository / "foreign" / "config.pbtxt").write_text(FOREIGN_CONFIG)
    (repository / "foreign" / "1" / "model.py").write_text(FOREIGN_MODEL)
    return repository


@pytest.fixture
def triton(tmp_path: Path, repository: Path) -> Iterator[TritonServer]:
    with TritonServer.start(backend_directory(tmp_path / "backends"), repository) as server:
        server.client().load_model("foreign")
        yield server
        server.process.kill()


def ready(triton: TritonServer) -> list[str]:
    """The models that Triton serves."""
    index = triton.client().get_model_repository_index()
    return sorted(model.name for model in index.models if model.state == "READY")


def test_only_own_models_are_taken_off(tmp_path: Path, triton: TritonServer, repository: Path) -> None:
    export(tmp_path / "models", 1, "m1")
    flags = (
        f"--model_root={tmp_path}/models",
        f"--triton_url=127.0.0.1:{triton.grpc_port}",
        f"--triton_http_url=127.0.0.1:{triton.http_port}",
        f"--triton_repository={repository}",
        "--triton_capacity_bytes=2000000000",
    )
    one, two = RuntimeServer(tmp_path / "one", *flags), RuntimeServer(tmp_path / "two", *flags)
    with one, two:
        with ModelMeshCaller(one.address) as mesh, ModelMeshCaller(two.address) as other:
            mesh.start()
            other.start()
            mesh.load("mine", path="m1")
            other.load("mine", path="m1")
        before = ready(triton)
        assert len(before) == 3
        one.kill()
        assert ready(triton) == before
        one.start()
        with ModelMeshCaller(one.address) as mesh:
            mesh.start()
            left = ready(triton)
            assert len(left) == 2
            assert "foreign" in left
            mesh.load("mine", path="m1")
            assert len(ready(triton)) == 3
            mesh.unload("mine")
            assert ready(triton) == left
