from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc

from tests.triton.tritonserver import Tritonserver


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="triton_test_"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def echo_server(server_directory: Path) -> Iterator[Tritonserver]:
    """A server that no test may kill, with the echo model loaded."""
    server = Tritonserver(server_directory / "shared")
    server.add_echo()
    server.add_echo("short", queue_size=1)
    server.start()
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        client.load_model("echo")
        client.load_model("short")
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Tritonserver]:
    """A server of one test's own, started, with the echo model in its repository but not loaded."""
    server = Tritonserver(tmp_path / "own")
    server.add_echo()
    server.start()
    yield server
    server.stop()
