"""What clients ask for and no server has."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from tests.support.bridge_server import BridgeServer
from tests.support.official_client import export

pytestmark = pytest.mark.integration

PROFILER = ("Profile", "Terminate", "Monitor", "StartContinuousProfiling", "StopContinuousProfiling", "GetSnapshot")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("unserved")
    export(directory / "m", 1)
    with BridgeServer(directory / "bridge", "--model_name=m", f"--model_base_path={directory}/m") as server:
        yield server


@pytest.mark.parametrize("method", PROFILER)
def test_the_profiler_says_so(server: BridgeServer, method: str) -> None:
    """TF Serving's own profiles the TensorFlow in its process; here TensorFlow runs in other ones."""
    with grpc.insecure_channel(server.grpc) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/tensorflow.ProfilerService/{method}")(b"", timeout=10)
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNIMPLEMENTED, "")
