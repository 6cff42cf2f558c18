"""The request path in this process, the control plane in another, on a real Triton."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore
from bridge.serving.legs import LegPool
from bridge.serving.link_socket import connect
from bridge.tfserving.grpc_server import GrpcServer
from bridge.triton.leg import open_leg
from tests.acceptance.conftest import Start, triton_flags
from tests.support import processes
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer, backend_directory

pytestmark = pytest.mark.integration

BODY_LIMIT = 1 << 26


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[TritonServer]:
    (tmp_path / "repository").mkdir()
    with TritonServer.start(backend_directory(tmp_path / "backends"), tmp_path / "repository") as server:
        yield server
        server.process.kill()


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[str]:
    """HOST:PORT of a router that is fed through the socket `tmp_path`/link."""
    view = RoutesView("router-1")
    link = connect(tmp_path / "link", view)
    core = InferenceCore(view, LegPool(lambda route: open_leg(route, BODY_LIMIT)), link)
    core.start()
    server = GrpcServer(core)
    port = await server.start("127.0.0.1:0")
    yield f"127.0.0.1:{port}"
    await server.stop(1)
    await core.close()
    await link.close()


async def test_request_path_and_control_plane_in_two_processes(
    triton: TritonServer, router: str, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    await asyncio.to_thread(export, tmp_path / "numbered", 1)
    program = [sys.executable, "-m", "tests.acceptance.linked_server", str(tmp_path / "link")]
    server = start(*triton_flags(triton, tmp_path / "repository"), program=program, ready=False)

    def tour() -> None:
        server.wait_ready()
        with client.loop(router, name="numbered") as loop:
            export(tmp_path / "numbered", 2)
            loop.wait_for_version(2)
            server.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})
            loop.wait_for_answers(20)
            assert loop.clean, loop.tally

            server.kill()
            loop.wait_for_answers(50)
            server.start()
            export(tmp_path / "numbered", 3)
            loop.wait_for_version(3)
            server.wait_for_states("numbered", {3: "AVAILABLE", 2: "END"})
            assert loop.clean, ("the router serves while its control plane is away", loop.tally)

            [stub] = [item for item in processes.naming(triton.shm_prefix) if ".numbered.3" in item.command]
            stub.kill()
            loop.wait_for_answers(1)
            server.wait_for_log("lost its copy", "numbered.3")
            loop.wait_for_answers(50)
        assert set(loop.tally["errors"]) <= {"UNAVAILABLE"}, loop.tally
        assert not loop.tally["wrong"]
        assert loop.tally["versions"] == [1, 2, 3]

    await asyncio.to_thread(tour)
