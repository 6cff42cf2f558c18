from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from bridge.serving.copy_health import BACKOFF, LONGEST_BACKOFF, CopyHealth
from bridge.serving.flights import Copy
from tests.serving import snapshots

COPY = Copy("tfs.00000000.half.1", "one")
OTHER = Copy("tfs.00000000.half.1", "two")
LISTED = snapshots.routes(snapshots.model("half", [snapshots.servable(instances=("one", "two"))]))
WITHDRAWN = snapshots.routes(snapshots.model("half", [snapshots.servable(instances=("two",))]))


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def health(clock: Clock) -> CopyHealth:
    return CopyHealth(clock)


def test_one_request_tries_a_failed_copy_after_each_back_off(health: CopyHealth, clock: Clock) -> None:
    health.failed(COPY)
    waits = []
    for _ in range(7):
        failed_at = clock.now
        while not health.admits(COPY):
            clock.now += BACKOFF / 8
        waits.append(clock.now - failed_at)
        assert not health.admits(COPY)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, LONGEST_BACKOFF, LONGEST_BACKOFF]
    assert health.admits(OTHER)


def test_success_ends_the_avoidance(health: CopyHealth) -> None:
    health.failed(COPY, LONGEST_BACKOFF)
    assert not health.admits(COPY)
    health.succeeded(COPY)
    assert health.admits(COPY)


def test_a_copy_is_trusted_when_it_was_withdrawn_and_came_back(health: CopyHealth) -> None:
    health.observe(LISTED, 1)
    health.failed(COPY)
    health.observe(LISTED, 2)
    assert not health.admits(COPY)
    health.observe(WITHDRAWN, 3)
    assert not health.admits(COPY)
    health.observe(LISTED, 4)
    assert health.admits(COPY)


def test_what_began_before_a_copy_came_back_is_stale(health: CopyHealth) -> None:
    for number, routes in enumerate((LISTED, LISTED, WITHDRAWN, LISTED), start=1):
        health.observe(routes, 10 * number)
    assert [health.is_stale(COPY, number) for number in (5, 39, 40, 41)] == [True, True, False, False]
    assert [health.is_stale(OTHER, number) for number in (5, 10, 39)] == [True, False, False]


def test_a_servable_that_is_gone_is_forgotten(health: CopyHealth) -> None:
    health.failed(COPY)
    health.observe(snapshots.routes(), 3)
    assert health.admits(COPY)


@pytest.mark.parametrize("event", ["snapshot", "success"])
async def test_news_wake_the_waiting(health: CopyHealth, event: str) -> None:
    health.failed(COPY, LONGEST_BACKOFF)
    waiting = asyncio.ensure_future(health.news([COPY], 60))
    await asyncio.sleep(0)
    if event == "snapshot":
        health.observe(LISTED, 1)
    else:
        health.succeeded(COPY)
    async with asyncio.timeout(5):
        await waiting


async def test_the_end_of_a_back_off_wakes_those_who_wait_for_that_copy(health: CopyHealth, clock: Clock) -> None:
    health.failed(COPY)
    clock.now = BACKOFF
    async with asyncio.timeout(5):
        await health.news([COPY], 60)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await health.news([OTHER], 60)
