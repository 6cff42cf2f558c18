from __future__ import annotations

import asyncio

from bridge.serving.freshness import Freshness


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_router_by_itself_is_always_fresh() -> None:
    assert not Freshness(Clock()).over


async def test_requests_past_the_lease_share_one_renewal() -> None:
    clock, tries = Clock(), 0
    freshness = Freshness(clock)

    async def renew() -> None:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0)
        freshness.extend(clock.now + 10)

    freshness.renew_by(renew)
    assert freshness.over
    await asyncio.gather(*(freshness.renewed(5) for _ in range(3)))
    assert (tries, freshness.over) == (1, False)
    clock.now += 10
    assert freshness.over


async def test_without_its_database_a_router_goes_on() -> None:
    clock = Clock()
    freshness = Freshness(clock)

    async def renew() -> None:
        raise OSError("away")

    freshness.renew_by(renew)
    await freshness.renewed(5)
    assert not freshness.over
    clock.now += 1
    assert freshness.over


async def test_a_request_does_not_wait_for_ever() -> None:
    freshness = Freshness(Clock())
    freshness.renew_by(asyncio.Event().wait)  # type: ignore[arg-type]
    await freshness.renewed(0.01)
    assert freshness.over
