from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tritonclient.grpc
import uvloop

from tests.triton.tritonserver import Tritonserver

TRANSPORTS = {"test_shared_memory_leg.py", "test_legs.py", "test_http_leg.py", "test_tls.py"}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The transports are tested on both event loops: the bridge runs on uvloop, embedders may not."""
    both = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    return both if item.path.name in TRANSPORTS else {"asyncio": asyncio.new_event_loop}


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
