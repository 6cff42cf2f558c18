"""gRPC servers, legs to Triton, numbers of workers and kinds of runners: each with each other, and all combinations."""

from __future__ import annotations

import itertools
import urllib.request
from pathlib import Path

import pytest

from bridge.transport import native
from tests.acceptance.conftest import Start
from tests.support import savedmodels
from tests.support.official_client import OfficialClient
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

LEGS = {
    "http": ("--triton_shared_memory_bytes=0",),
    "shared_memory": (),
    "grpc": ("--triton_shared_memory_bytes=0", "--triton_http_body_limit=1"),
}
SERVERS, WORKERS, PROCESSES = ("native", "grpcio"), (1, 2), ("per-version", "per-device")
PAIRS = [
    ("native", "http", 1, "per-version"),
    ("grpcio", "http", 2, "per-device"),
    ("native", "shared_memory", 2, "per-version"),
    ("grpcio", "shared_memory", 1, "per-device"),
    ("native", "grpc", 1, "per-device"),
    ("grpcio", "grpc", 2, "per-version"),
]
OTHERS = [row for row in itertools.product(SERVERS, LEGS, WORKERS, PROCESSES) if row not in PAIRS]
LARGE = [float(number) for number in range(50_000)]
"""200 kB, which goes through shared memory where that is on."""


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return savedmodels.half_plus_two(tmp_path_factory.mktemp("models") / "half", 1).parent


@pytest.mark.parametrize(
    ("server", "leg", "workers", "processes"), [*PAIRS, *(pytest.param(*row, marks=pytest.mark.slow) for row in OTHERS)]
)
def test_requests_are_answered(
    start: Start, client: OfficialClient, half: Path, server: str, leg: str, workers: int, processes: str
) -> None:
    if server == "native" and native.MODULE is None:
        pytest.skip(f"no native gRPC server: {native.PROBLEM}")
    bridge = start(
        "--model_name=half",
        f"--model_base_path={half}",
        f"--grpc_server={server}",
        f"--workers={workers}",
        f"--runner_processes={processes}",
        *LEGS[leg],
    )
    assert client.predict(bridge.grpc, [1.0, 2.0, 5.0], name="half")["outputs"]["y"]["values"] == [2.5, 3.0, 4.5]
    for _ in range(3):
        answer = client.predict(bridge.grpc, LARGE, name="half")
        assert answer["outputs"]["y"]["values"] == [value / 2 + 2 for value in LARGE]
    missing = client.predict(bridge.grpc, [1.0], name="nothing")
    assert missing["details"] == "Servable not found for request: Latest(nothing)"
    wait_for(lambda: f'leg="{leg}",outcome="ok"' in _metrics(bridge.admin), 10, f"a call went by {leg}")


def _metrics(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        return str(response.read().decode())
