"""Large tensors in shared memory, with a real tritonserver."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import tritonclient.grpc.aio as triton

from bridge.errors import Code
from bridge.serving.routes import InstanceRoute
from bridge.telemetry.observers import CallObserver
from bridge.triton.calls import CallError, InferenceLeg, ModelCall, WireTensor
from bridge.triton.leg import SharedMemory, open_leg
from bridge.triton.output_sizes import OutputSizes
from bridge.triton.shared_memory_names import Owner
from tests.triton.tritonserver import Tritonserver

pytestmark = pytest.mark.integration

THRESHOLD = 128 * 1024
LIMIT = 256 << 20
LARGE = 300_000
NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


class Opened:
    """A leg, and how many calls each transport carried with `ok`."""

    def __init__(self, server: Tritonserver, limit: int = LIMIT) -> None:
        self.ok: Counter[str] = Counter()
        self.other: Counter[str] = Counter()
        memory = SharedMemory(THRESHOLD, limit)
        self.leg: InferenceLeg = open_leg(
            InstanceRoute("one", grpc=server.grpc, http=server.http), memory=memory, observer=self._observer
        )

    def _observer(self, kind: str) -> CallObserver:
        def observe(outcome: str, seconds: float) -> None:
            (self.ok if outcome == "ok" else self.other)[kind] += 1

        return observe

    async def echo(self, size: int, timeout: float = 30, **parameters: str) -> WireTensor:
        call, data = echo(size, parameters)
        (output,) = await self.leg.infer(call, timeout)
        assert bytes(output.data) == data
        return output


def echo(
    size: int, parameters: Mapping[str, str] = NO_PARAMETERS, *, repeatable: bool = True
) -> tuple[ModelCall, bytes]:
    data = random.randbytes(size)
    tensor = WireTensor("in.UINT8", "UINT8", (size,), data)
    return ModelCall("echo", [tensor], ["out.UINT8"], parameters, repeatable=repeatable), data


def registered(server: Tritonserver) -> list[str]:
    request = urllib.request.Request(f"http://{server.http}/v2/systemsharedmemory/status")
    with urllib.request.urlopen(request, timeout=5) as response:
        return [item["name"] for item in json.load(response)]


def ours(pid: int) -> list[str]:
    return [path.name for path in Path("/dev/shm").glob(f"bridge_{pid}_*")]


@pytest.fixture
async def opened(echo_server: Tritonserver) -> AsyncIterator[Opened]:
    found = Opened(echo_server)
    yield found
    await found.leg.close()
    assert registered(echo_server) == []
    assert ours(os.getpid()) == []


async def test_size_decides(opened: Opened) -> None:
    await opened.echo(THRESHOLD - 1)
    assert opened.ok == {"http": 1}
    await opened.echo(THRESHOLD)
    assert opened.ok == {"http": 1, "shared_memory": 1}


@pytest.mark.parametrize("size", [THRESHOLD, LARGE, 1 << 20, 20_000_001])
async def test_outputs_come_in_shared_memory_once_their_size_is_known(opened: Opened, size: int) -> None:
    first, second = await opened.echo(size), await opened.echo(size)
    assert opened.ok == {"shared_memory": 2}
    assert isinstance(first.data, memoryview)
    assert isinstance(first.data.obj, bytearray), "received by HTTP"
    assert isinstance(second.data, memoryview)
    assert not isinstance(second.data.obj, bytearray), "a view on the region"
    assert second.data.readonly


async def test_outputs_of_stateful_models_never_do(opened: Opened) -> None:
    for _ in range(2):
        call, data = echo(LARGE, repeatable=False)
        (output,) = await opened.leg.infer(call, 10)
        assert isinstance(output.data, memoryview)
        assert isinstance(output.data.obj, bytearray)
        assert output.data == data
    assert opened.ok == {"shared_memory": 2}


async def test_region_is_not_lent_again_while_an_answer_is_looked_at(opened: Opened) -> None:
    await opened.echo(LARGE)
    answers = []
    for _ in range(4):
        call, data = echo(LARGE)
        answers.append((await opened.leg.infer(call, 10), data))
    assert all(bytes(output.data) == data for (output,), data in answers)


async def test_parallel_calls_get_their_own_answers(opened: Opened) -> None:
    async def caller(number: int) -> None:
        for turn in range(10):
            await opened.echo(THRESHOLD + 1000 * ((number + turn) % 5))

    await asyncio.gather(*(caller(number) for number in range(8)))
    assert opened.ok == {"shared_memory": 80}


async def test_mixed_inputs(opened: Opened) -> None:
    """Empty ones have no place in a region, strings come back in the message."""
    texts = b"".join(len(text).to_bytes(4, "little") + text for text in (b"", b"x" * 200_000))
    inputs = [
        WireTensor("in.UINT8", "UINT8", (LARGE,), bytes(LARGE)),
        WireTensor("in.FP32", "FP32", (0,), b""),
        WireTensor("in.BYTES", "BYTES", (2,), texts),
        WireTensor("in.INT8", "INT8", (3,), b"abc"),
    ]
    names = ["out.BYTES", "out.INT8", "out.UINT8", "out.FP32"]
    for _ in range(2):
        outputs = await opened.leg.infer(ModelCall("echo", inputs, names, repeatable=True), 10)
        assert [(output.name, bytes(output.data)) for output in outputs] == [
            ("out.BYTES", texts),
            ("out.INT8", b"abc"),
            ("out.UINT8", bytes(LARGE)),
            ("out.FP32", b""),
        ]
    assert opened.ok == {"shared_memory": 2}


async def test_errors_of_the_model_leave_the_region_in_order(opened: Opened) -> None:
    call, _ = echo(LARGE, {"error": "INTERNAL tf_status=9 not now"})
    for _ in range(3):
        with pytest.raises(CallError, match=r"^not now$") as caught:
            await opened.leg.infer(call, 10)
        assert caught.value.code is Code.FAILED_PRECONDITION
    await opened.echo(LARGE)
    assert opened.other == {"shared_memory": 3}


async def test_abandoned_call_keeps_its_region_until_it_ended(opened: Opened, echo_server: Tritonserver) -> None:
    call, _ = echo(LARGE, {"sleep": "1"})
    with pytest.raises(CallError) as caught:
        await opened.leg.infer(call, 0.3)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    for _ in range(5):
        await opened.echo(LARGE)
    task = asyncio.create_task(opened.leg.infer(call, 10))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await opened.echo(LARGE)
    await opened.leg.close()
    assert registered(echo_server) == []


async def test_no_room_means_another_leg(echo_server: Tritonserver) -> None:
    opened = Opened(echo_server, limit=1 << 20)
    await opened.echo(2 << 20)
    await opened.echo(LARGE)
    assert opened.ok == {"http": 1, "shared_memory": 1}
    await opened.leg.close()


async def test_output_that_outgrew_its_place_is_answered_all_the_same(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened.echo(LARGE)
    expected = OutputSizes.expected

    def too_little(self: Any, call: ModelCall) -> dict[str, int]:
        return {name: size // 2 for name, size in expected(self, call).items()}

    with monkeypatch.context() as patched:
        patched.setattr(OutputSizes, "expected", too_little)
        await opened.echo(LARGE)
    output = await opened.echo(LARGE)
    assert isinstance(output.data, memoryview)
    assert isinstance(output.data.obj, bytearray), "such calls are not trusted any more"


async def test_server_killed_and_started_again(own_server: Tritonserver) -> None:
    opened = Opened(own_server)
    async with triton.InferenceServerClient(own_server.grpc) as client:
        await client.load_model("echo")
        await asyncio.gather(*(opened.echo(LARGE) for _ in range(3)))
        running = asyncio.create_task(opened.leg.infer(echo(LARGE, {"sleep": "5"})[0], 20))
        await asyncio.sleep(0.2)
        own_server.kill()
        with pytest.raises(CallError, match="went away"):
            await running
        own_server.start()
        async with asyncio.timeout(10):
            while True:
                try:
                    await client.load_model("echo")
                    break
                except triton.InferenceServerException:
                    await asyncio.sleep(0.05)
    before = opened.ok["shared_memory"]
    await asyncio.gather(*(opened.echo(LARGE) for _ in range(3)))
    assert opened.ok["shared_memory"] == before + 3
    await opened.leg.close()
    assert ours(os.getpid()) == []


def mapped(pid: int) -> int:
    """How many regions of this process a process maps, with a name or without."""
    return Path(f"/proc/{pid}/maps").read_text().count(f"/bridge_{os.getpid()}_")


@pytest.mark.parametrize("calls", [30, pytest.param(1000, marks=pytest.mark.slow)])
async def test_regions_go_back(opened: Opened, echo_server: Tritonserver, calls: int) -> None:
    for _ in range(calls // 3):
        await asyncio.gather(*(opened.echo(4 << 20) for _ in range(3)))
    assert opened.ok == {"shared_memory": calls // 3 * 3}
    assert mapped(os.getpid()) == mapped(echo_server.pid) > 0
    async with asyncio.timeout(20):
        while mapped(os.getpid()) or mapped(echo_server.pid):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert registered(echo_server) == []


CALLER = """
import asyncio, sys
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import ModelCall, WireTensor
from bridge.triton.leg import SharedMemory, open_leg

SIZE = 3_000_000
CALL = ModelCall("echo", [WireTensor("in.UINT8", "UINT8", (SIZE,), bytes(SIZE))], ["out.UINT8"], repeatable=True)

async def main():
    leg = open_leg(InstanceRoute("one", grpc="", http=sys.argv[1]), memory=SharedMemory(1, 256 << 20))
    async def caller():
        await leg.infer(CALL, 20)
        await leg.infer(CALL, 20)
        print("answered", flush=True)
        while True:
            await leg.infer(CALL, 20)
    await asyncio.gather(*(caller() for _ in range(3)))

asyncio.run(main())
"""


async def test_nothing_stays_of_a_killed_bridge(echo_server: Tritonserver) -> None:
    script = [sys.executable, "-c", CALLER, echo_server.http]
    process = await asyncio.create_subprocess_exec(*script, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(3):
        assert await asyncio.wait_for(process.stdout.readline(), 30) == b"answered\n"
    process.kill()
    await process.wait()
    assert not any((Path("/dev/shm") / name).stat().st_blocks for name in ours(process.pid))
    assert any(name.startswith(f"bridge_{process.pid}_") for name in registered(echo_server))
    left = Path("/dev/shm") / Owner(process.pid, 1, Owner.this().place).region_name()
    left.touch()
    opened = Opened(echo_server)
    assert ours(process.pid) == []
    async with asyncio.timeout(20):
        while any(name.startswith(f"bridge_{process.pid}_") for name in registered(echo_server)):
            await opened.echo(LARGE)
    await opened.leg.close()
