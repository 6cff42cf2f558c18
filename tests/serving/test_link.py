"""Request path and control plane in two processes: the router in this one, the control plane in a child."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge.codec.predict import ModelSpec, PredictCall
from bridge.errors import Code
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore
from bridge.serving.inference import Inference
from bridge.serving.legs import LegPool
from bridge.serving.link_socket import LinkServer, connect
from bridge.serving.routes import InstanceRoute
from bridge.serving.routes_json import dumps, loads
from bridge.triton.calls import CallError, Fault
from tests.serving import snapshots
from tests.serving.control_plane_process import Teller
from tests.serving.half_plus_two import FakeLeg
from tests.serving.waiting import until

CALL = PredictCall(ModelSpec("half"), {"x": memoryview(snapshots.one_float(2))}, ())


class ControlPlane:
    """The child process and what it prints."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, path: Path) -> ControlPlane:
        command = (sys.executable, "-m", "tests.serving.control_plane_process", str(path))
        plane = cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))
        await plane.hears("listening")
        return plane

    async def publish(self, version: int, instance: str) -> int:
        self._tell(f"{version} {instance}")
        epoch: int = (await self.hears("published"))[1]
        return epoch

    def lose(self, instance: str) -> None:
        self._tell(f"lose {instance}")

    async def hears(self, word: str, accept: Callable[[list[Any]], bool] = lambda message: True) -> list[Any]:
        """The next message that starts with `word` and is accepted."""
        assert self._process.stdout is not None
        async with asyncio.timeout(10):
            while True:
                message: list[Any] = orjson.loads(await self._process.stdout.readline())
                if message[0] == word and accept(message):
                    return message

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._process.wait() == 0

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())


class Router:
    """A request path over a fake leg that is fed by a link."""

    def __init__(self, path: Path) -> None:
        self.view = RoutesView("router-1")
        self.control = connect(path, self.view)
        self.leg = FakeLeg(snapshots.instance("one"))
        self.core = InferenceCore(self.view, LegPool(self._open), self.control)
        self.inference = Inference(self.core)

    def _open(self, instance: InstanceRoute) -> FakeLeg:
        return self.leg

    async def reaches(self, epoch: int) -> None:
        async with asyncio.timeout(10):
            while self.view.routes.epoch < epoch:
                await self.view.changed()

    async def close(self) -> None:
        await self.control.close()
        await self.core.close()


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    router = Router(tmp_path / "link")
    yield router
    await router.close()


async def test_two_processes(router: Router, tmp_path: Path) -> None:
    plane = await ControlPlane.start(tmp_path / "link")
    first = await plane.publish(1, "one")
    await router.reaches(first)
    assert (await router.inference.predict(CALL, 5)).version == 1
    await plane.hears("drained", lambda message: message[1:] == ["router-1", first])

    router.leg.hold = asyncio.Event()
    slow = asyncio.ensure_future(router.inference.predict(CALL, 5))
    await until(lambda: len(router.leg.calls) == 2)
    second = await plane.publish(2, "one")
    await router.reaches(second)
    assert router.view.drained_epoch() == first
    router.leg.hold.set()
    assert (await slow).version == 1
    await plane.hears("drained", lambda message: message[2] == second)

    router.leg.faults = [CallError("no such model", Code.NOT_FOUND, Fault.NOT_READY)]
    retried = asyncio.ensure_future(router.inference.predict(CALL, 5))
    assert await plane.hears("failure") == ["failure", "tfs.00000000.half.2", "one", "no such model"]
    assert (await retried).version == 2
    await plane.stop()


async def test_the_last_snapshot_serves_while_the_control_plane_is_away(router: Router, tmp_path: Path) -> None:
    plane = await ControlPlane.start(tmp_path / "link")
    first = await plane.publish(1, "one")
    await router.reaches(first)
    await plane.kill()
    assert (await router.inference.predict(CALL, 5)).version == 1
    router.control.report_failure("tfs.00000000.half.1", "one", "seen while away")
    plane = await ControlPlane.start(tmp_path / "link")
    assert (await plane.hears("failure"))[3] == "seen while away"
    await router.reaches(await plane.publish(2, "one"))
    assert (await router.inference.predict(CALL, 5)).version == 2
    await plane.stop()


async def test_lost_copies_reach_the_router(router: Router, tmp_path: Path) -> None:
    plane = await ControlPlane.start(tmp_path / "link")
    await router.reaches(await plane.publish(1, "one"))
    router.leg.hold = asyncio.Event()
    hanging = asyncio.ensure_future(router.inference.predict(CALL, 5))
    await until(lambda: len(router.leg.calls) == 1)
    plane.lose("one")
    await plane.hears("failure")
    router.leg.hold = None
    await plane.publish(1, "-")
    await plane.publish(1, "one")
    assert (await hanging).version == 1
    await plane.stop()


async def test_demands_and_uses_reach_the_control_plane(router: Router, tmp_path: Path) -> None:
    for _ in range(3):
        router.control.load_on_demand("a/b c")
        router.control.used("m", 2)
    plane = await ControlPlane.start(tmp_path / "link")
    assert await plane.hears("demand") == ["demand", "a/b c"]
    assert await plane.hears("used") == ["used", "m", 6]
    router.control.used("m", 1)
    router.control.load_on_demand("n")
    assert await plane.hears("demand") == ["demand", "n"]
    assert await plane.hears("used") == ["used", "m", 1]
    await plane.stop()


async def test_only_this_user_may_connect(tmp_path: Path) -> None:
    server = LinkServer(tmp_path / "link", Teller())
    await server.start()
    assert (tmp_path / "link").stat().st_mode & 0o777 == 0o600
    await server.close()
    assert not (tmp_path / "link").exists()


def test_snapshots_survive_the_wire() -> None:
    routes = snapshots.routes(
        snapshots.model("half", [snapshots.servable(version=-1, stateful=True)], labels={"a": 1}, ended=[4]), epoch=9
    )
    assert loads(dumps(routes)) == routes
    assert b"\n" not in dumps(routes)
