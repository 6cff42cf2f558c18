from __future__ import annotations

import asyncio

from bridge.lifecycle.leases import RouterLeases


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_waits_for_every_router() -> None:
    leases = RouterLeases(lease_seconds=60)
    leases.drained("a", 1)
    leases.drained("b", 1)
    waiting = asyncio.create_task(leases.wait_drained(2))
    leases.drained("a", 2)
    await asyncio.sleep(0)
    assert not waiting.done()
    leases.drained("b", 3)
    await asyncio.wait_for(waiting, 5)


async def test_a_silent_router_loses_its_lease_and_a_permanent_one_does_not() -> None:
    clock = Clock()
    leases = RouterLeases(lease_seconds=0.04, clock=clock)
    leases.enlist("local", permanent=True)
    leases.drained("remote", 1)
    leases.drained("local", 1)
    waiting = asyncio.create_task(leases.wait_drained(2))
    await asyncio.sleep(0)
    leases.drained("local", 2)
    clock.now = 1.0
    await asyncio.wait_for(waiting, 5)

    waiting = asyncio.create_task(leases.wait_drained(3))
    clock.now = 100.0
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    leases.drained("local", 3)
    await asyncio.wait_for(waiting, 5)
