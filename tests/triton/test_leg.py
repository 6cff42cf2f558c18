from __future__ import annotations

import pytest

from bridge.errors import InvalidArgument
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import ModelCall, WireTensor
from bridge.triton.grpc_leg import GrpcLeg
from bridge.triton.http_leg import HttpLeg
from bridge.triton.leg import ChoosingLeg, open_leg
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
    ("grpc", "http", "kind"),
    [("h:1", "h:2", ChoosingLeg), ("h:1", "", GrpcLeg), ("", "h:2", HttpLeg)],
)
async def test_open_ports_decide(grpc: str, http: str, kind: type) -> None:
    leg = open_leg(InstanceRoute("one", grpc=grpc, http=http))
    assert type(leg) is kind
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
