"""Several bridges on one PostgreSQL and one Triton: one leads, all serve."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.registry.registry import Registry
from tests.acceptance.conftest import Start, triton_flags
from tests.support.bridge_server import BridgeServer
from tests.support.official_client import OfficialClient, export
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[TritonServer]:
    with TritonServer.start(backend_directory(tmp_path / "backends"), tmp_path / "repository") as server:
        yield server
        server.process.kill()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def pair(start: Start, tmp_path: Path, triton: TritonServer, url: str) -> list[BridgeServer]:
    """Two replicas that serve `numbered`, version 1; the first leads."""
    export(tmp_path / "numbered", 1)
    flags = [f"--database_url={url}", "--migrate", *triton_flags(triton, tmp_path / "repository")]
    return [start(*flags, f"--replica_name={name}", name=name) for name in ("left", "right")]


def leader(url: str) -> str:
    registry = Registry.open(url)
    try:
        lease = registry.lease()
        return lease.holder if lease is not None and lease.expires_at else ""
    finally:
        registry.close()


def test_both_serve_and_changes_reach_both(
    pair: list[BridgeServer], client: OfficialClient, tmp_path: Path, url: str
) -> None:
    left, right = pair
    assert leader(url) == "left"
    with client.loop(left.grpc, name="numbered") as first, client.loop(right.grpc, name="numbered") as second:
        export(tmp_path / "numbered", 2)
        first.wait_for_version(2)
        second.wait_for_version(2)
        left.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})
        specific = {"specific": {"versions": [1, 2]}}
        assert right.change("PUT", "/api/v1/policy?model=numbered", specific).json == {"changed": True}
        left.wait_for_states("numbered", {2: "AVAILABLE", 1: "AVAILABLE"})
        wait_for(lambda: right.states("numbered") == {2: "AVAILABLE", 1: "AVAILABLE"}, 2, "the other one knows")
        assert right.change("PUT", "/api/v1/label?model=numbered&label=stable", {"version": 1}).json == {"changed": True}
        assert client.predict(right.grpc, [1.0], name="numbered", label="stable")["spec"]["version"] == 1
        left.signal(signal.SIGSTOP)
        left.signal(signal.SIGCONT)
    assert first.clean, first.tally
    assert second.clean, second.tally
    right.terminate()
    assert left.terminate() == 0
