"""A Triton that shares no file system with the bridge: its agent copies what the bridge wants."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import MODEL, ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer, backend_directory, free_ports
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

TOKEN = "a long secret"


class Place:
    """A bridge with its repository, a Triton with another one, and the agent of that."""

    def __init__(self, directory: Path, triton: TritonServer) -> None:
        self.here, self.there = directory / "here", directory / "there"
        self.name = f"127.0.0.1:{triton.grpc_port}"
        [self.port] = free_ports(1)
        self.token = directory / "token"
        self.token.write_text(f"{TOKEN}\n")
        self.flags = [
            f"--triton_url={self.name}",
            f"--triton_repository={self.here}={self.there}",
            f"--agent_port={self.port}",
            f"--agent_token_file={self.token}",
        ]

    @contextlib.contextmanager
    def agent(self) -> Iterator[subprocess.Popen[bytes]]:
        """The agent, with a repository of its own."""
        program = str(Path(sys.executable).with_name("model-repo-sync"))
        options = [f"--bridge=http://127.0.0.1:{self.port}", f"--instance={self.name}", "--interval=0.1"]
        command = [program, "agent", *options, f"--token_file={self.token}", f"--repository={self.there}"]
        process = subprocess.Popen(command)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def ask(self, method: str, target: str, body: str = "", token: str = TOKEN) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, target, body, {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        answer = response.status, response.read()
        connection.close()
        return answer

    def models(self) -> list[str]:
        """What Triton's repository holds."""
        return sorted(path.name for path in self.there.iterdir() if not path.name.startswith("."))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with TritonServer.start(backend_directory(tmp_path / "backends"), tmp_path / "there") as triton:
        yield Place(tmp_path, triton)


def test_models_come_and_go_by_an_agent(tmp_path: Path, place: Place, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 7)
    export(tmp_path / "models" / "m", 5)
    flags = [
        "--model_name=numbered",
        f"--model_base_path={tmp_path / 'numbered'}",
        f"--model_root={tmp_path / 'models'}",
    ]
    with place.agent(), BridgeServer(tmp_path / "bridge", *place.flags, *flags) as server:
        answer = client.predict(server.grpc, [0.0], name="numbered")
        assert answer["outputs"]["y"]["values"] == [7.0]
        with ModelMeshClient(server.modelmesh) as mesh:
            info = {"type": "tensorflow", "path": "m"}
            status = mesh("registerModel", modelId="m", modelInfo=info, loadNow=True, sync=True)
            assert (MODEL(status.status), list(status.errors)) == ("LOADED", [])
            answer = client.predict(server.modelmesh, [0.0], name="m")
            assert answer["outputs"]["y"]["values"] == [5.0]
            [registered] = [name for name in place.models() if name.startswith("mm.")]
            mesh("unregisterModel", modelId="m")
            wait_for(lambda: registered not in place.models(), 30, "the agent removed the model")
        assert not [path for path in place.here.rglob("saved_model.pb") if path.is_relative_to(place.there)]


def test_a_load_waits_for_the_agent(tmp_path: Path, place: Place, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 7)
    flags = ["--model_name=numbered", f"--model_base_path={tmp_path / 'numbered'}"]
    with place.agent() as agent, BridgeServer(tmp_path / "bridge", *place.flags, *flags) as server:
        agent.kill()
        agent.wait()
        export(tmp_path / "numbered", 8)
        server.wait_for_states("numbered", {7: "AVAILABLE", 8: "LOADING"})
        wait_for(lambda: any(path.name.endswith(".8") for path in place.here.iterdir()), 20, "version 8 is written")
        assert client.predict(server.grpc, [0.0], name="numbered")["outputs"]["y"]["values"] == [7.0]
        with place.agent():
            server.wait_for_states("numbered", {7: "END", 8: "AVAILABLE"})
            assert client.predict(server.grpc, [0.0], name="numbered")["outputs"]["y"]["values"] == [8.0]


def test_only_agents_that_know_the_token_are_answered(tmp_path: Path, place: Place) -> None:
    export(tmp_path / "numbered", 7)
    flags = ["--model_name=numbered", f"--model_base_path={tmp_path / 'numbered'}"]
    with place.agent(), BridgeServer(tmp_path / "bridge", *place.flags, *flags):
        target = f"/api/v1/repository?instance={place.name}"
        assert place.ask("POST", target, '{"held": {}}', token="wrong")[0] == 401
        assert place.ask("POST", "/api/v1/repository?instance=other", '{"held": {}}')[0] == 404
        assert place.ask("POST", target, '{"held": 7}')[0] == 400
        file = f"/api/v1/repository/file?instance={place.name}&digest=d"
        assert place.ask("GET", f"{file}&model=..&path=token")[0] == 404
        assert place.ask("GET", f"{file}&model=..&path=token", token="wrong")[0] == 401
        [name] = [path.name for path in place.here.iterdir() if path.name.startswith("tfs.")]
        assert place.ask("GET", f"{file}&model={name}&path=config.pbtxt")[0] == 400
        digest = (place.there / name / ".mirror").read_text()
        good = f"/api/v1/repository/file?instance={place.name}&digest={digest}&model={name}"
        assert place.ask("GET", f"{good}&path=../../token")[0] == 404
        assert place.ask("GET", f"{good}&path=config.pbtxt")[1] == (place.here / name / "config.pbtxt").read_bytes()
