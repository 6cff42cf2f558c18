from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.serving.legs import LegPool
from bridge.serving.routes import InstanceRoute
from tests.serving import snapshots
from tests.serving.half_plus_two import FakeLeg
from tests.serving.waiting import until

ONE, TWO = snapshots.instance("one"), snapshots.instance("two")


@pytest.fixture
def opened() -> list[FakeLeg]:
    return []


@pytest.fixture
async def pool(opened: list[FakeLeg]) -> LegPool:
    def open_leg(instance: InstanceRoute) -> FakeLeg:
        opened.append(FakeLeg(instance))
        return opened[-1]

    return LegPool(open_leg)


def test_a_leg_is_kept_over_snapshots(pool: LegPool, opened: list[FakeLeg]) -> None:
    for instance in (ONE, replace(ONE), ONE):
        with pool.use(instance) as leg:
            assert leg is opened[0]


async def test_a_new_address_makes_a_new_leg(pool: LegPool, opened: list[FakeLeg]) -> None:
    with pool.use(ONE), pool.use(replace(ONE, http="one:9000")) as leg:
        assert leg is opened[1]
        assert not opened[0].closed
    await until(lambda: opened[0].closed)
    assert not opened[1].closed


def test_the_least_busy_instance(pool: LegPool) -> None:
    assert {pool.least_busy(("one", "two")) for _ in range(2)} == {"one", "two"}
    with pool.use(ONE):
        assert [pool.least_busy(("one", "two")) for _ in range(3)] == ["two"] * 3
        assert pool.least_busy(("one",)) == "one"
        with pool.use(TWO), pool.use(TWO):
            assert [pool.least_busy(("one", "two")) for _ in range(3)] == ["one"] * 3


async def test_close_closes_all(pool: LegPool, opened: list[FakeLeg]) -> None:
    for instance in (ONE, TWO):
        with pool.use(instance):
            pass
    pool.observe(snapshots.routes(instances=("two",)))
    await pool.close()
    assert [leg.closed for leg in opened] == [True, True]
