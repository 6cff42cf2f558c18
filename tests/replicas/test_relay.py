"""Where a replica's request path turns to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridge.registry import Registry, notices
from bridge.registry.thread import RegistryThread
from bridge.replicas.progress import RouterProgress
from bridge.replicas.relay import ControlRelay


class Plane:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        self.heard.append(("failure", triton_name, instance, reason))

    def drained(self, router: str, epoch: int) -> None:
        self.heard.append(("drained", router, epoch))

    def load_on_demand(self, model_id: str) -> None:
        self.heard.append(("demand", model_id))

    def used(self, model_id: str, count: int) -> None:
        self.heard.append(("used", model_id, count))


def ask(relay: ControlRelay) -> None:
    relay.report_failure("tfs.m.1", "t", "it died")
    relay.load_on_demand("x")
    relay.used("x", 2)


ASKED = [("failure", "tfs.m.1", "t", "it died"), ("demand", "x"), ("used", "x", 2)]


async def test_a_leader_asks_itself(registry: Registry, thread: RegistryThread) -> None:
    relay = ControlRelay(registry, thread, RouterProgress(registry, thread, "a", 60))
    plane = Plane()
    relay.plane = plane
    ask(relay)
    assert plane.heard == ASKED


async def test_a_follower_asks_the_leader_by_notices(
    registry: Registry, thread: RegistryThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(
        Registry, "notify", lambda self, word, content: loop.call_soon_threadsafe(told.put_nowait, (word, content))
    )
    relay = ControlRelay(registry, thread, RouterProgress(registry, thread, "b", 60))
    leader = ControlRelay(registry, thread, RouterProgress(registry, thread, "a", 60))
    plane = Plane()
    leader.plane = plane
    task = asyncio.create_task(relay.run())
    ask(relay)
    async with asyncio.timeout(10):
        for _ in ASKED:
            word, content = await told.get()
            relay.hear(word, content)
            leader.hear(word, content)
    task.cancel()
    assert plane.heard == ASKED
    leader.hear(notices.ROUTES, 5)
    assert plane.heard == ASKED
