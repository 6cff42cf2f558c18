"""Two bridges with equally named models, and somebody else's model, on one Triton that none of them started."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from tests.acceptance.conftest import Start, triton_flags
from tests.support import model_config, processes
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

FOREIGN_CONFIG = """
name: "foreign"
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
instance_group { kind: KIND_CPU }
"""
FOREIGN_MODEL = """
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb.InferenceResponse([pb.Tensor("y", x * 3)]) for x in inputs]
"""


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[TritonServer]:
    """A Triton of somebody else, with a model `foreign` of theirs."""
    repository = tmp_path / "repository"
    (repository / "foreign" / "1").mkdir(parents=True)
    (repository / "foreign" / "config.pbtxt").write_text(FOREIGN_CONFIG)
    (repository / "foreign" / "1" / "model.py").write_text(FOREIGN_MODEL)
    with TritonServer.start(backend_directory(tmp_path / "backends"), repository) as server:
        server.client().load_model("foreign")
        yield server
        server.process.kill()  # it would wait long for a runner that a test killed


class ForeignClient:
    """Somebody else's client of their own model, in a thread that never pauses."""

    def __init__(self, triton: TritonServer) -> None:
        self.answers = 0
        self.failures: list[str] = []
        self._client = triton.client()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> ForeignClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        x = grpcclient.InferInput("x", [1], "FP32")
        x.set_data_from_numpy(np.array([2.0], np.float32))
        while not self._stop.wait(0.005):
            try:
                [y] = self._client.infer("foreign", [x]).as_numpy("y")
            except Exception as error:
                self.failures.append(str(error))
            else:
                self.answers += 1
                if y != 6.0:
                    self.failures.append(f"wrong answer {y}")


def loaded(triton: TritonServer) -> dict[str, set[str]]:
    """Loaded models by their owner: a deployment, or `foreign`."""
    owners: dict[str, set[str]] = {}
    for model in triton.client().get_model_repository_index().models:
        if model.state == "READY":
            _, _, rest = model.name.partition(".")
            deployment, _, name = rest.partition(".")
            owners.setdefault(deployment or model.name, set()).add(name)
    return owners


def deployment(server: BridgeServer) -> str:
    [instance] = server.get_json("/api/v1/instances")["instances"]
    name: str = instance["copies"][0]
    return name.split(".")[1]


def test_bridges_and_strangers_do_not_notice_each_other(
    triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    for owner, model in (("a", "numbered"), ("a", "second"), ("b", "numbered")):
        export(tmp_path / owner / model, 1)
    entries = [Entry(model, tmp_path / "a" / model) for model in ("numbered", "second")]
    config = model_config.write(tmp_path / "a.config", *entries)
    flags = triton_flags(triton, tmp_path / "repository")
    b = start("--model_name=numbered", f"--model_base_path={tmp_path}/b/numbered", *flags, name="bridge-b")
    with ForeignClient(triton) as foreign, client.loop(b.grpc, name="numbered") as others:
        a = start(f"--model_config_file={config}", *flags, name="bridge-a")
        first, second = deployment(a), deployment(b)
        with client.loop(a.grpc, name="numbered") as loop:
            export(tmp_path / "a" / "numbered", 2)
            loop.wait_for_version(2)
            a.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})
        assert loop.clean, loop.tally
        assert loaded(triton) == {first: {"numbered.2", "second.1"}, second: {"numbered.1"}, "foreign": {""}}
        assert a.terminate() == 0

        model_config.write(config, entries[1])
        a.start()
        wait_for(lambda: loaded(triton).get(first) == {"second.1"}, 20, "what is not configured any more is gone")
        assert client.predict(a.grpc, [1.0], name="second")["outputs"]["y"]["values"] == [1.5]
        wait_for(lambda: not list((tmp_path / "repository").glob(f"tfs.{first}.numbered.*")), 20, "its files too")
        a.kill()
        others.wait_for_answers(20)
    assert others.clean, others.tally
    assert foreign.answers > 20
    assert not foreign.failures
    assert (tmp_path / "repository" / "foreign" / "config.pbtxt").exists()


def test_copies_outlive_their_bridge(
    triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    """A restart finds them again and neither loads nor copies anything."""
    export(tmp_path / "numbered", 1)
    server = start(*triton_flags(triton, tmp_path / "repository"))
    runner = client.predict(server.grpc, [1.0], name="numbered")
    loads = triton.log.read_text().count("successfully loaded 'tfs.")
    server.kill()
    server.start()
    assert client.predict(server.grpc, [1.0], name="numbered") == runner
    assert triton.log.read_text().count("successfully loaded 'tfs.") == loads


def test_a_model_outlives_its_source(
    triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    """The runner died after the directory was deleted: the repository has its own content."""
    directory = export(tmp_path / "numbered", 1)
    server = start(*triton_flags(triton, tmp_path / "repository"))
    directory.rename(tmp_path / "gone")
    with client.loop(server.grpc, name="numbered") as loop:
        server.wait_for_log("No versions of servable numbered found")
        kill_runner(triton)
        wait_for(lambda: loop.tally["errors"] or loop.tally["gap"] > 0.2, 10, "the client noticed")
        loop.wait_for_answers(20)
    assert set(loop.tally["errors"]) <= {"UNAVAILABLE"}, loop.tally
    assert not loop.tally["wrong"]


def kill_runner(triton: TritonServer) -> None:
    [stub] = [process for process in processes.naming(triton.shm_prefix) if ".numbered." in process.command]
    stub.kill()


def test_a_triton_that_comes_later_is_used(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    repository = tmp_path / "repository"
    repository.mkdir()
    backends = backend_directory(tmp_path / "backends")
    with TritonServer.start(backends, repository) as stopped:
        flags = triton_flags(stopped, repository)
        ports = stopped.grpc_port, stopped.http_port
    server = start(*flags, ready=False)
    server.wait_for_log("is down")
    answer = client.predict(server.grpc, [1.0], name="numbered")
    assert answer["code"] == "UNAVAILABLE"
    with TritonServer.start(backends, repository, ports=ports):
        server.wait_ready()
        assert client.predict(server.grpc, [1.0], name="numbered")["outputs"]["y"]["values"] == [1.5]
        server.close()


def test_a_wrong_repository_path_is_one_sentence_with_its_cure(
    triton: TritonServer, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    export(tmp_path / "numbered", 1)
    (tmp_path / "elsewhere").mkdir()
    server = start(*triton_flags(triton, f"{tmp_path}/elsewhere={tmp_path}/repository"), ready=False)
    cure = "Give --triton_repository=PATH=PATH_AS_TRITON_SEES_IT the directory of Triton's --model-repository."
    [line] = server.wait_for_log(" is down: ", cure)
    assert (
        f"A model written to {tmp_path}/elsewhere does not show in Triton instance 127.0.0.1:{triton.grpc_port}, "
        f"which should see that directory as {tmp_path}/repository."
    ) in line
    assert client.predict(server.grpc, [1.0], name="numbered")["code"] == "UNAVAILABLE"
    assert len(server.log_lines(" is down: ", cure)) == 1, "said once"
    ready = server.request("GET", "/readyz", to=server.admin)
    assert ready.status == 503
    assert cure in str(ready.json["reasons"])
    assert server.terminate() == 0


def test_a_repository_that_is_no_directory_is_one_sentence(start: Start, tmp_path: Path) -> None:
    export(tmp_path / "numbered", 1)
    (tmp_path / "file").write_text("no directory")
    server = start("--triton_url=127.0.0.1:1", f"--triton_repository={tmp_path}/file", ready=False)
    assert server.wait() == 1
    [line] = server.log_lines("bridge serve:")
    assert f"The model repository {tmp_path}/file cannot be used: File exists." in line
    assert not server.log_lines("Traceback")
