"""The supervisor of the embedded Triton, with a double of the child. The real one is in the tests of whole servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import Unavailable
from bridge.lifecycle.embedded import EmbeddedSupervisor
from bridge.lifecycle.fleet import Fleet
from tests.lifecycle.scripted_triton import News, ScriptedTriton, controller
from tests.serving.waiting import until


class Child:
    """Ends when it is killed; `refuses` counts the starts that fail."""

    def __init__(self) -> None:
        self.pid = 1
        self.grpc, self.http = "127.0.0.1:1", "127.0.0.1:2"
        self.starts = 0
        self.kills = 0
        self.refuses = 0
        self._ended = asyncio.Event()

    async def ready(self) -> None:
        self.starts += 1
        if self.refuses:
            self.refuses -= 1
            raise Unavailable("it does not start")

    async def restart(self) -> None:
        self._ended.clear()
        await self.ready()

    async def wait(self) -> int:
        await self._ended.wait()
        return -9

    def kill(self) -> None:
        self.kills += 1
        self._ended.set()


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("refuses", [0, 2])
async def test_a_child_that_ends_is_replaced(tmp_path: Path, executor: Executor, refuses: int) -> None:
    child, news, tritons = Child(), News(), [ScriptedTriton()]
    one, _ = controller("embedded", tmp_path, Fleet(), news, executor)

    def connect(route: Any) -> Any:
        tritons.append(ScriptedTriton())
        return tritons[-1]

    supervisor = EmbeddedSupervisor(child, one, connect)  # type: ignore[arg-type]
    running = asyncio.create_task(supervisor.run())
    await until(lambda: len(tritons) == 2)
    child.refuses = refuses
    child.kill()
    await until(lambda: len(tritons) == 3)
    assert child.starts == 2 + refuses
    await until(lambda: tritons[1].closed)
    assert not tritons[2].closed
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await one.close()


async def test_restarts_for_lost_loads_are_rare(tmp_path: Path, executor: Executor) -> None:
    child = Child()
    one, _ = controller("embedded", tmp_path, Fleet(), News(), executor)
    supervisor = EmbeddedSupervisor(child, one, lambda route: ScriptedTriton())  # type: ignore[arg-type,return-value]
    for _ in range(5):
        supervisor.restart("a runner died")
    assert child.kills == 1
    await one.close()
