"""A Triton without a bridge before it, for what the runner alone costs."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from tritonclient.grpc import service_pb2

from bridge.state_dir import StateDir
from bridge.triton.embedded import EmbeddedTriton
from model_repo_sync import triton_config
from model_repo_sync.saved_model import read_saved_model
from model_repo_sync.triton_config import RunnerOptions

HERE = Path(__file__).parent
IDENTITY = "bench_identity"
LOAD_SECONDS = 60.0


@dataclass(frozen=True)
class BareTriton:
    """A running server. `pid` is its process, `repository` where its models lie."""

    grpc: str
    http: str
    pid: int
    repository: Path

    def version(self) -> str:
        """Triton's own."""
        with urllib.request.urlopen(f"http://{self.http}/v2", timeout=10) as response:
            return str(json.load(response)["version"])

    def add_identity(self) -> str:
        """Load the model that only answers its input; its name."""
        shutil.copytree(HERE / "identity", self.repository / IDENTITY)
        self.load(IDENTITY)
        return IDENTITY

    def add(self, name: str, saved_model: Path, options: RunnerOptions) -> float:
        """Load a SavedModel as `name`; the seconds that it took Triton."""
        directory = self.repository / name
        (directory / "1").mkdir(parents=True)
        shutil.copytree(saved_model, directory / "1" / "model.savedmodel")
        config = triton_config.generate(name, read_saved_model(str(saved_model)), options)
        (directory / "config.pbtxt").write_text(config)
        start = time.monotonic()
        self.load(name)
        return time.monotonic() - start

    def load(self, name: str) -> None:
        self._call("RepositoryModelLoad", service_pb2.RepositoryModelLoadRequest(model_name=name))

    def unload(self, name: str) -> None:
        self._call("RepositoryModelUnload", service_pb2.RepositoryModelUnloadRequest(model_name=name))

    def _call(self, method: str, request: Any) -> bytes:
        with grpc.insecure_channel(self.grpc) as channel:
            call: Any = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            return bytes(call(request.SerializeToString(), timeout=LOAD_SECONDS))


@contextmanager
def bare_triton(state: Path) -> Iterator[BareTriton]:
    """A Triton as the bridge starts it, with its files in `state`. Needs the main thread."""
    directory = StateDir(state)
    directory.acquire()
    server = EmbeddedTriton(directory)
    try:
        server.start()
        server.wait_ready()
        assert server.pid is not None
        yield BareTriton(server.grpc, server.http, server.pid, server.repository)
    finally:
        server.close()
        directory.release()
