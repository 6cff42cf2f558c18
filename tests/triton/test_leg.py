from __future__ import annotations

import pytest

from bridge.errors import InvalidArgument
from bridge.serving.routes import InstanceRoute
from bridge.telemetry.observers import CallObserver, uncounted
from bridge.triton.calls import ModelCall, WireTensor
from bridge.triton.leg import ChoosingLeg, open_leg, shared_memory
from tests.triton.tritonserver import Tritonserver


class Recorder:
    """Stands in for a transport: it notes the sizes that it is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.closed = False
        self.full = False

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        self.sizes.append(sum(len(tensor.data) for tensor in call.inputs))
        return []

    async def close(self) -> None:
        self.closed = True


def call(*sizes: int) -> ModelCall:
    return ModelCall("m", [WireTensor("x", "UINT8", (size,), bytes(size)) for size in sizes], ["y"])


async def test_size_and_room_decide() -> None:
    lean, roomy = Recorder(), Recorder()
    leg = ChoosingLeg(lean, roomy, limit=1_000_000)
    for sizes in ((0,), (900_000,), (500_000, 500_000), (2_000_000,)):
        await leg.infer(call(*sizes), 1)
    assert lean.sizes == [0, 900_000]
    assert roomy.sizes == [1_000_000, 2_000_000]
    lean.full = True
    await leg.infer(call(1), 1)
    assert roomy.sizes[-1] == 1
    await leg.close()
    assert lean.closed
    assert roomy.closed


@pytest.mark.parametrize(
    ("grpc", "http", "shares", "kinds"),
    [
        ("h:1", "h:2", False, {"http", "grpc"}),
        ("h:1", "", False, {"grpc"}),
        ("", "h:2", False, {"http"}),
        ("h:1", "h:2", True, {"http", "grpc", "shared_memory"}),
        ("h:1", "", True, {"grpc"}),
        ("", "h:2", True, {"http", "shared_memory"}),
    ],
)
async def test_open_ports_decide(grpc: str, http: str, shares: bool, kinds: set[str]) -> None:
    opened: set[str] = set()

    def observer(kind: str) -> CallObserver:
        opened.add(kind)
        return uncounted

    leg = open_leg(InstanceRoute("one", grpc=grpc, http=http), memory=shared_memory(1, int(shares)), observer=observer)
    assert opened == kinds
    await leg.close()


async def test_instance_without_ports() -> None:
    with pytest.raises(InvalidArgument, match="instance one has no address"):
        open_leg(InstanceRoute("one", grpc="", http=""))


@pytest.mark.integration
async def test_both_transports_of_one_triton(echo_server: Tritonserver) -> None:
    leg = open_leg(InstanceRoute("one", grpc=echo_server.grpc, http=echo_server.http), http_body_limit=100_000)
    for size in (10, 1_000_000):
        tensor = WireTensor("in.UINT8", "UINT8", (size,), bytes(size))
        (output,) = await leg.infer(ModelCall("echo", [tensor], ["out.UINT8"]), 10)
        assert output.shape == (size,)
        assert isinstance(output.data, memoryview) == (size == 10)
    await leg.close()
