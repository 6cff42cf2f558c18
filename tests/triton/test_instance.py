"""Control of a real tritonserver."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.errors import Code, DeadlineExceeded
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from bridge.triton.grpc_leg import GrpcLeg
from bridge.triton.instance import FailureKind, IndexEntry, LoadFailure, TritonInstance
from model_repo_sync.triton_config import RunnerOptions, probe
from tests.triton.tritonserver import Tritonserver, echo_config

pytestmark = pytest.mark.integration


def connect(server: Tritonserver) -> TritonInstance:
    return TritonInstance.connect(InstanceRoute("one", grpc=server.grpc, http=server.http))


@pytest.fixture
async def instance(own_server: Tritonserver) -> AsyncIterator[TritonInstance]:
    instance = connect(own_server)
    yield instance
    await instance.close()


def write(server: Tritonserver, name: str, config: str) -> Path:
    (server.repository / name / "1").mkdir(parents=True)
    path = server.repository / name / "config.pbtxt"
    path.write_text(config)
    return path


async def test_metadata(instance: TritonInstance) -> None:
    metadata = await instance.server_metadata()
    assert metadata.version.startswith("2.")
    assert "model_repository" in metadata.extensions
    assert await instance.server_ready()


async def test_load_and_unload(instance: TritonInstance) -> None:
    assert await instance.index() == {"echo": IndexEntry("", "")}
    await instance.load("echo", 20)
    assert await instance.index() == {"echo": IndexEntry("READY", "")}
    assert await instance.model_ready("echo")
    assert "out.FP32" in await instance.model_outputs("echo")
    await instance.load("echo", 20)
    await instance.unload("echo", 20)
    assert await instance.index() == {"echo": IndexEntry("UNAVAILABLE", "unloaded")}
    assert not await instance.model_ready("echo")
    await instance.unload("echo", 20)
    await instance.unload("never-heard-of", 20)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("broken", 'name: "other"', "failed to load 'broken', failed to poll from model repository"),
        (
            "lost",
            echo_config("lost", 0).replace('backend: "echo"', 'backend: "nothing"'),
            "unable to find backend library for backend 'nothing', try specifying runtime on the model configuration.",
        ),
    ],
)
async def test_platform_failures(
    instance: TritonInstance, own_server: Tritonserver, name: str, config: str, message: str
) -> None:
    write(own_server, name, config)
    with pytest.raises(LoadFailure) as caught:
        await instance.load(name, 20)
    assert (caught.value.kind, caught.value.message) == (FailureKind.PLATFORM, message)


async def test_model_failure(instance: TritonInstance, own_server: Tritonserver) -> None:
    name = "tfs.0123abcd.m.1"
    config = probe(name, RunnerOptions())
    runner = '{\\"format\\":1,\\"inputs\\":{},\\"outputs\\":{},\\"tags\\":[\\"serve\\"]}'
    write(own_server, name, config.replace('{\\"format\\":1,\\"probe\\":true}', runner))
    for _ in range(2):
        with pytest.raises(LoadFailure, match=r"^Could not find SavedModel \.pb or \.pbtxt at [^\n]*$") as caught:
            await instance.load(name, 30)
        assert (caught.value.kind, caught.value.code) == (FailureKind.MODEL, Code.NOT_FOUND)
    await instance.unload(name, 20)


async def until_idle(pid: int) -> None:
    """Wait until every thread of a process has slept for a while.

    A stub killed in the moment after an answer, when it still holds a lock that it shares with Triton 24.10, now and
    then takes the whole tritonserver with it (SIGABRT).
    """
    calm = 0
    async with asyncio.timeout(10):
        while calm < 10:
            states = [
                stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")
            ]
            calm = calm + 1 if set(states) == {"S"} else 0
            await asyncio.sleep(0.03)


async def test_ping_and_dead_runner(instance: TritonInstance, own_server: Tritonserver) -> None:
    name = "probe.0123abcd.x"
    write(own_server, name, probe(name, RunnerOptions()))
    with pytest.raises(CallError) as caught:
        await instance.ping(name)
    assert caught.value.fault is Fault.NOT_READY
    await instance.load(name, 30)
    runner = await instance.ping(name)
    assert runner.version
    assert runner.tensorflow.startswith("2.")
    assert runner.memory_bytes > 10_000_000

    await until_idle(runner.pid)
    os.kill(runner.pid, signal.SIGKILL)
    with pytest.raises(CallError) as caught:
        await instance.ping(name, 10)
    assert caught.value.fault is Fault.RUNNER
    assert (await instance.index())[name].state == "READY"
    await instance.abandon(name)
    await instance.load(name, 5)
    assert (await instance.ping(name)).pid != runner.pid
    await instance.unload(name, 20)


def echo(**parameters: str) -> ModelCall:
    return ModelCall("echo", [WireTensor("in.UINT8", "UINT8", (1,), b"a")], ["out.UINT8"], parameters)


async def test_a_call_outside_of_the_request_path(instance: TritonInstance) -> None:
    await instance.load("echo", 20)
    [answer] = await instance.infer(echo(), 20)
    assert bytes(answer.data) == b"a"
    with pytest.raises(CallError, match="tf_status") as caught:
        await instance.infer(echo(error="INTERNAL no tf_status"), 20)
    assert caught.value.fault is Fault.MODEL
    with pytest.raises(CallError) as caught:
        await instance.infer(echo(exit="1"), 20)
    assert caught.value.fault is Fault.RUNNER


class SilentLeg:
    """A leg to a runner that died: calls in flight are never answered, later ones hear of it."""

    def __init__(self) -> None:
        self.cancelled = False

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        if call.outputs == ["bridge.runner"]:
            raise CallError("Stub process is not healthy.", Code.UNAVAILABLE, Fault.RUNNER)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError("nobody sets the event")

    async def close(self) -> None:
        """There is no connection."""


async def test_a_call_ends_with_its_runner_though_triton_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.triton.instance.WATCH_SECONDS", 0.05)
    instance, leg = TritonInstance.connect(InstanceRoute("one", grpc="127.0.0.1:1", http="")), SilentLeg()
    monkeypatch.setattr(instance, "_leg", leg)
    with pytest.raises(CallError, match="not healthy"):
        await instance.infer(echo(), 3600)
    await asyncio.sleep(0)
    assert leg.cancelled
    await instance.close()


async def test_load_outlives_its_call(instance: TritonInstance, own_server: Tritonserver) -> None:
    """The runner needs some tenths of a second to load TensorFlow, so a call of 50 ms ends before."""
    name = "probe.0123abcd.slow"
    write(own_server, name, probe(name, RunnerOptions()))
    with pytest.raises(LoadFailure, match=rf"has not loaded {name} within 0\.05 s") as caught:
        await instance.load(name, 0.05)
    assert (caught.value.kind, caught.value.code) == (FailureKind.PLATFORM, Code.DEADLINE_EXCEEDED)
    await instance.load(name, 30)
    await instance.ping(name)


async def test_unload_waits_for_requests_in_flight(instance: TritonInstance, own_server: Tritonserver) -> None:
    await instance.load("echo", 20)
    leg = GrpcLeg(own_server.grpc)
    tensor = WireTensor("in.FP32", "FP32", (1,), bytes(4))
    running = asyncio.create_task(leg.infer(ModelCall("echo", [tensor], ["out.FP32"], {"sleep": "0.8"}), 10))
    await asyncio.sleep(0.2)
    with pytest.raises(DeadlineExceeded, match="has echo UNLOADING 0"):
        await instance.unload("echo", 0.1)
    await instance.unload("echo", 20)
    assert running.done()
    await running
    await leg.close()


async def test_server_away_and_back(instance: TritonInstance, own_server: Tritonserver) -> None:
    await instance.load("echo", 20)
    own_server.kill()
    with pytest.raises(CallError) as caught:
        await instance.index()
    assert caught.value.fault is Fault.CONNECTION
    with pytest.raises(LoadFailure) as failure:
        await instance.load("echo", 5)
    assert (failure.value.kind, failure.value.code) == (FailureKind.PLATFORM, Code.UNAVAILABLE)
    own_server.start()
    async with asyncio.timeout(5):
        while True:
            try:
                index = await instance.index()
                break
            except CallError:
                await asyncio.sleep(0.05)
    assert index == {"echo": IndexEntry("", "")}
    await instance.load("echo", 20)


async def test_load_meets_a_kill(instance: TritonInstance, own_server: Tritonserver) -> None:
    name = "probe.0123abcd.killed"
    write(own_server, name, probe(name, RunnerOptions()))
    load = asyncio.create_task(instance.load(name, 30))
    await asyncio.sleep(0.15)
    own_server.kill()
    with pytest.raises(LoadFailure) as caught:
        await load
    assert (caught.value.kind, caught.value.code) == (FailureKind.PLATFORM, Code.UNAVAILABLE)


async def test_hanging_server(instance: TritonInstance, own_server: Tritonserver) -> None:
    await instance.index()
    own_server.pause()
    try:
        with pytest.raises(CallError) as caught:
            await instance.index(0.2)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
    finally:
        own_server.resume()


async def test_closed_instance(own_server: Tritonserver) -> None:
    instance = connect(own_server)
    await instance.close()
    with pytest.raises(CallError) as caught:
        await instance.index()
    assert not caught.value.sent
