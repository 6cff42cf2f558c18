"""The legs against a real tritonserver, by one table."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator

import pytest
import tritonclient.grpc.aio as triton

from bridge.errors import Code
from bridge.serving.routes import InstanceRoute
from bridge.triton import leg as transport
from bridge.triton.calls import CallError, Fault, InferenceLeg, ModelCall, WireTensor
from bridge.triton.grpc_leg import GrpcLeg
from bridge.triton.http_leg import HttpLeg, parse_address
from tests.triton.tritonserver import Tritonserver

pytestmark = pytest.mark.integration

LEGS = ("http", "grpc", "shared_memory")


def open_leg(kind: str, server: Tritonserver) -> InferenceLeg:
    return open_leg_at(kind, server.http, server.grpc)


def open_leg_at(kind: str, http: str, grpc: str) -> InferenceLeg:
    if kind == "shared_memory":
        return transport.open_leg(InstanceRoute("one", grpc="", http=http), memory=transport.SharedMemory(1, 64 << 20))
    return HttpLeg(parse_address(http, None)) if kind == "http" else GrpcLeg(grpc)


@pytest.fixture(params=LEGS)
async def leg(request: pytest.FixtureRequest, echo_server: Tritonserver) -> AsyncIterator[InferenceLeg]:
    leg = open_leg(request.param, echo_server)
    yield leg
    await leg.close()


def strings(*values: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def echo(datatype: str, sent: tuple[int, ...], data: bytes | memoryview, **parameters: str) -> ModelCall:
    tensor = WireTensor(f"in.{datatype}", datatype, sent, data)
    return ModelCall("echo", [tensor], [f"out.{datatype}"], parameters)


def floats(**parameters: str) -> ModelCall:
    return echo("FP32", (4,), struct.pack("<4f", 1, 2, 3, 4), **parameters)


def short(**parameters: str) -> ModelCall:
    return ModelCall("short", floats().inputs, ["out.FP32"], parameters)


@pytest.mark.parametrize(
    ("datatype", "data", "count"),
    [
        ("BOOL", bytes([1, 0, 1]), 3),
        ("UINT8", bytes(range(256)), 256),
        ("UINT16", bytes(range(6)), 3),
        ("UINT32", bytes(range(12)), 3),
        ("UINT64", b"\xff" * 24, 3),
        ("INT8", b"\x80\x7f", 2),
        ("INT16", b"\x00\x80", 1),
        ("INT32", b"\x00\x00\x00\x80", 1),
        ("INT64", b"\x00" * 7 + b"\x80", 1),
        ("FP16", b"\x00\x3c\xff\xff", 2),
        ("BF16", b"\x80\x3f\xc0\xff", 2),
        ("FP32", struct.pack("<3f", 1.5, float("inf"), float("nan")), 3),
        ("FP64", struct.pack("<d", 5e-324), 1),
        ("BYTES", strings(b"", b"\x00\xff", "é".encode(), b'"%d\r\n\r\n'), 4),
    ],
)
async def test_every_datatype_comes_back_byte_for_byte(
    leg: InferenceLeg, datatype: str, data: bytes, count: int
) -> None:
    (output,) = await leg.infer(echo(datatype, (count,), data), 10)
    assert (output.name, output.datatype, output.shape) == (f"out.{datatype}", datatype, (count,))
    assert bytes(output.data) == data


@pytest.mark.parametrize(
    ("datatype", "sent", "data", "parameters", "shape"),
    [
        ("FP32", (0,), b"", {}, (0,)),
        ("BYTES", (0,), b"", {}, (0,)),
        ("FP32", (1,), b"\x00\x00\x80\x3f", {"shape": "[]"}, ()),
        ("BYTES", (1,), strings(b"a"), {"shape": "[]"}, ()),
        ("INT32", (6,), bytes(24), {"shape": "[1, 2, 3]"}, (1, 2, 3)),
        ("INT32", (0,), b"", {"shape": "[2, 0, 3]"}, (2, 0, 3)),
    ],
)
async def test_shapes_of_outputs(
    leg: InferenceLeg,
    datatype: str,
    sent: tuple[int, ...],
    data: bytes,
    parameters: dict[str, str],
    shape: tuple[int, ...],
) -> None:
    (output,) = await leg.infer(echo(datatype, sent, data, **parameters), 10)
    assert output.shape == shape
    assert bytes(output.data) == data


async def test_outputs_come_in_the_order_asked_for(leg: InferenceLeg) -> None:
    inputs = [WireTensor("in.INT8", "INT8", (1,), b"\x01"), WireTensor("in.UINT8", "UINT8", (2,), b"\x02\x03")]
    for names in (["out.UINT8", "out.INT8"], ["out.INT8", "out.UINT8"], ["out.UINT8"]):
        outputs = await leg.infer(ModelCall("echo", inputs, names), 10)
        assert [output.name for output in outputs] == names


@pytest.mark.parametrize("size", [16_000, 17_000, 65_536, 4 * 1024 * 1024, 4 * 1024 * 1024 + 1])
async def test_large_tensors(leg: InferenceLeg, size: int) -> None:
    data = random.Random(size).randbytes(size)
    (output,) = await leg.infer(echo("UINT8", (size,), memoryview(data)), 20)
    assert bytes(output.data) == data


async def test_parallel_calls_get_their_own_answers(leg: InferenceLeg) -> None:
    async def caller(number: int) -> None:
        for turn in range(20):
            data = struct.pack("<2i", number, turn) * (1 + 700 * (turn % 7))
            (output,) = await leg.infer(echo("INT32", (len(data) // 4,), data), 20)
            assert bytes(output.data) == data

    await asyncio.gather(*(caller(number) for number in range(8)))


@pytest.mark.parametrize(
    ("call", "code", "fault", "message"),
    [
        (
            ModelCall("nope", floats().inputs, ["out.FP32"]),
            Code.UNAVAILABLE,
            Fault.NOT_READY,
            "Request for unknown model: 'nope' is not found",
        ),
        (
            echo("FP32", (1, 2), bytes(8)),
            Code.INVALID_ARGUMENT,
            Fault.MODEL,
            "unexpected shape for input 'in.FP32' for model 'echo'. Expected [-1], got [1,2].",
        ),
        (
            floats(error="INVALID_ARG tf_status=9 Table not initialized.\nsecond line"),
            Code.FAILED_PRECONDITION,
            Fault.MODEL,
            "Table not initialized.\nsecond line",
        ),
        (floats(error="INTERNAL tf_status=11 eof"), Code.OUT_OF_RANGE, Fault.MODEL, "eof"),
        (
            floats(**{"raise": "boom"}),
            Code.INTERNAL,
            Fault.MODEL,
            "Failed to process the request(s) for model 'echo_0_0', message: RuntimeError: boom",
        ),
        (
            ModelCall("echo", floats().inputs, ["out.nope"]),
            Code.INVALID_ARGUMENT,
            Fault.MODEL,
            "unexpected inference output 'out.nope' for model 'echo'",
        ),
    ],
)
async def test_errors(leg: InferenceLeg, call: ModelCall, code: Code, fault: Fault, message: str) -> None:
    with pytest.raises(CallError) as caught:
        await leg.infer(call, 10)
    assert (caught.value.code, caught.value.fault, caught.value.message) == (code, fault, message)


@pytest.mark.parametrize("kind", LEGS)
async def test_request_id_is_not_part_of_the_error(kind: str, echo_server: Tritonserver) -> None:
    leg = open_leg(kind, echo_server)
    call = ModelCall("echo", floats().inputs, ["out.FP32"], {"error": "INTERNAL tf_status=3 no"}, request_id="id 7]")
    with pytest.raises(CallError, match=r"^no$"):
        await leg.infer(call, 10)
    await leg.close()


async def test_full_queue_is_busy(leg: InferenceLeg) -> None:
    calls = [leg.infer(short(sleep="0.3"), 10) for _ in range(4)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, CallError)]
    assert 1 <= len(refused) <= 3
    assert {(error.code, error.fault) for error in refused} == {(Code.UNAVAILABLE, Fault.BUSY)}
    assert {error.message for error in refused} == {"Exceeds maximum queue size"}


async def test_timeout_ends_the_call_and_the_leg_lives_on(leg: InferenceLeg) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    with pytest.raises(CallError) as caught:
        await leg.infer(floats(sleep="0.6"), 0.1)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    assert loop.time() - start < 0.5
    (output,) = await leg.infer(floats(), 10)
    assert output.shape == (4,)


async def test_request_that_timed_out_in_the_queue_does_not_run(leg: InferenceLeg) -> None:
    running = asyncio.create_task(leg.infer(floats(sleep="0.4"), 10))
    await asyncio.sleep(0.05)
    started = asyncio.get_running_loop().time()
    with pytest.raises(CallError) as caught:
        await leg.infer(floats(sleep="5"), 0.1)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    await running
    await leg.infer(floats(), 10)
    assert asyncio.get_running_loop().time() - started < 4


async def test_cancelled_call_leaves_the_leg_in_order(leg: InferenceLeg) -> None:
    for _ in range(3):
        running = asyncio.create_task(leg.infer(floats(sleep="0.1"), 10))
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    (output,) = await leg.infer(floats(), 10)
    assert output.shape == (4,)


async def test_cancellation_by_grpc_takes_the_request_out_of_the_queue(echo_server: Tritonserver) -> None:
    """Triton 24.10 does not watch HTTP connections: there only the queue timeout ends a request nobody waits for."""
    leg = GrpcLeg(echo_server.grpc)
    running = asyncio.create_task(leg.infer(floats(sleep="0.4"), 10))
    await asyncio.sleep(0.05)
    started = asyncio.get_running_loop().time()
    queued = asyncio.create_task(leg.infer(floats(sleep="5"), 20))
    await asyncio.sleep(0.05)
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    await running
    await leg.infer(floats(), 10)
    assert asyncio.get_running_loop().time() - started < 4
    await leg.close()


async def test_close_fails_what_is_in_flight(leg: InferenceLeg) -> None:
    running = asyncio.create_task(leg.infer(floats(sleep="0.5"), 10))
    await asyncio.sleep(0.1)
    await leg.close()
    with pytest.raises(CallError) as caught:
        await running
    assert (caught.value.code, caught.value.fault) == (Code.UNAVAILABLE, Fault.CONNECTION)
    with pytest.raises(CallError) as caught:
        await leg.infer(floats(), 10)
    assert not caught.value.sent


async def until_not_ready(leg: InferenceLeg) -> None:
    """Wait until a server answers that it does not know the model."""
    async with asyncio.timeout(5):
        while True:
            with pytest.raises(CallError) as caught:
                await leg.infer(floats(), 10)
            if caught.value.fault is Fault.NOT_READY:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", LEGS)
async def test_server_killed_and_started_again(kind: str, own_server: Tritonserver) -> None:
    leg = open_leg(kind, own_server)
    async with triton.InferenceServerClient(own_server.grpc) as client:
        await client.load_model("echo")
    await asyncio.gather(*(leg.infer(floats(), 10) for _ in range(4)))
    running = asyncio.create_task(leg.infer(floats(sleep="5"), 20))
    await asyncio.sleep(0.2)
    own_server.kill()
    with pytest.raises(CallError) as caught:
        await running
    assert (caught.value.code, caught.value.fault, caught.value.sent) == (Code.UNAVAILABLE, Fault.CONNECTION, True)

    for _ in range(5):
        with pytest.raises(CallError) as caught:
            await leg.infer(floats(), 10)
        assert (caught.value.code, caught.value.fault) == (Code.UNAVAILABLE, Fault.CONNECTION)
        assert not caught.value.sent

    own_server.start()
    await until_not_ready(leg)
    async with triton.InferenceServerClient(own_server.grpc) as client:
        await client.load_model("echo")
    await leg.infer(floats(), 10)
    await leg.close()


@pytest.mark.parametrize("kind", LEGS)
async def test_hanging_server_ends_with_the_deadline(kind: str, own_server: Tritonserver) -> None:
    leg = open_leg(kind, own_server)
    with pytest.raises(CallError):
        await leg.infer(floats(), 10)
    own_server.pause()
    try:
        with pytest.raises(CallError) as caught:
            await leg.infer(floats(), 0.3)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
    finally:
        own_server.resume()
        await leg.close()


@pytest.mark.parametrize("kind", LEGS)
async def test_dead_stub_is_the_runners_fault(kind: str, own_server: Tritonserver) -> None:
    leg = open_leg(kind, own_server)
    async with triton.InferenceServerClient(own_server.grpc) as client:
        await client.load_model("echo")
    with pytest.raises(CallError) as caught:
        await leg.infer(floats(exit="1"), 20)
    assert (caught.value.code, caught.value.fault) == (Code.UNAVAILABLE, Fault.RUNNER)
    await leg.close()


@pytest.mark.parametrize("kind", LEGS)
async def test_nothing_listens(kind: str) -> None:
    address = "127.0.0.1:1"
    leg = open_leg_at(kind, address, address)
    with pytest.raises(CallError, match=r"Triton at 127\.0\.0\.1:1 cannot be reached: .*Connection refused") as caught:
        await leg.infer(floats(), 5)
    assert (caught.value.code, caught.value.fault, caught.value.sent) == (Code.UNAVAILABLE, Fault.CONNECTION, False)
    await leg.close()


@pytest.mark.parametrize("kind", LEGS)
async def test_unknown_host(kind: str) -> None:
    address = "no-such-host.invalid:1"
    leg = open_leg_at(kind, address, address)
    with pytest.raises(CallError, match="cannot be reached") as caught:
        await leg.infer(floats(), 5)
    assert not caught.value.sent
    await leg.close()
