"""Who leads, on a real database; duties are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from bridge.errors import Unavailable
from bridge.registry import Registry
from bridge.registry.records import Lease, Pulse, Replica
from bridge.registry.thread import RegistryThread
from bridge.replicas.authority import Authority
from bridge.replicas.membership import Membership, Times
from tests.replicas.conftest import ManualTime
from tests.support.waiting import wait_for


class Duties:
    def __init__(self, fails: bool = False) -> None:
        self.terms: list[int] = []
        self.authority: Authority | None = None
        self.beats = 0
        self.leading = asyncio.Event()
        self._fails = fails

    async def lead(self, lease: Lease, authority: Authority) -> None:
        self.terms.append(lease.fence)
        self.authority = authority
        if self._fails:
            raise Unavailable("nothing to lead with")
        self.leading.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.clear()

    @property
    def holds(self) -> bool:
        return self.authority is not None and self.authority.held

    async def beaten(self, pulse: Pulse, started: float) -> None:
        self.beats += 1

    def progress(self) -> Sequence[tuple[str, int]]:
        return [("router", self.beats)]


LONG = Times(60, 60, 1)
Enter = Callable[..., Membership]


@pytest.fixture
async def enter(
    open_registry: Callable[[], Registry], thread: RegistryThread, time: ManualTime
) -> AsyncIterator[Enter]:
    entered: list[Membership] = []

    def enter(name: str, duties: Duties, times: Times = LONG) -> Membership:
        entered.append(Membership(open_registry(), thread, Replica(name, f"{name}:1", "1"), duties, times, time))
        return entered[-1]

    yield enter
    for membership in entered:
        await membership.leave()


async def test_the_first_leads_and_hands_over_when_it_leaves(enter: Enter) -> None:
    a, b = Duties(), Duties()
    first, second = enter("a", a), enter("b", b)
    await first.join()
    await second.join()
    await a.leading.wait()
    assert (first.leads, second.leads) == (True, False)
    assert second.pulse is not None
    assert second.pulse.leader_address == "a:1"
    await first.leave()
    assert not a.leading.is_set()
    await second.beat()
    await b.leading.wait()
    assert (a.terms, b.terms) == ([1], [2])


async def test_who_was_overtaken_steps_down_and_may_lead_again(enter: Enter, registry: Registry) -> None:
    a, b = Duties(), Duties()
    first, second = enter("a", a, Times(-1, 60, 1)), enter("b", b)
    await first.join()
    await a.leading.wait()
    await second.join()
    await b.leading.wait()
    await first.beat()
    assert not first.leads
    assert not a.leading.is_set()
    assert a.authority is not None
    assert not a.authority.held
    await second.leave()
    await first.beat()
    await a.leading.wait()
    assert a.terms == [1, 3]


async def test_a_lease_that_ran_out_goes_on_if_nobody_took_it(enter: Enter) -> None:
    duties = Duties()
    member = enter("a", duties, Times(-1, 60, 1))
    await member.join()
    await duties.leading.wait()
    await member.beat()
    assert member.leads
    assert duties.terms == [1]


async def test_authority_counts_from_before_the_renewal(enter: Enter, time: ManualTime) -> None:
    duties = Duties()
    member = enter("a", duties)
    await member.join()
    await duties.leading.wait()
    held = []
    for passes in (59, 1):
        time.now += passes
        held.append(duties.holds)
    await member.beat()
    assert [*held, duties.holds] == [True, False, True]


async def test_after_an_outage_the_others_wait_for_who_led(
    enter: Enter, time: ManualTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = Duties(), Duties()
    first, second = enter("a", a, Times(-1, 60, 1)), enter("b", b, Times(5, 60, 1))
    await first.join()
    await a.leading.wait()
    with monkeypatch.context() as outage:
        outage.setattr(Registry, "beat", _away)
        outage.setattr(Registry, "renew_lease", _away)
        assert not await first.beat()
        assert not await second.beat()
    assert await second.beat()
    assert not second.leads
    assert await first.beat()
    assert first.leads
    time.now += 5
    await second.beat()
    await b.leading.wait()


def _away(*arguments: object) -> None:
    raise Unavailable("the database is away")


async def test_who_failed_to_lead_rests_before_the_next_try(enter: Enter, time: ManualTime) -> None:
    duties = Duties(fails=True)
    member = enter("a", duties)
    await member.join()
    await asyncio.to_thread(wait_for, lambda: not member.leads, 10, "the term ended")
    await member.beat()
    assert duties.terms == [1]
    time.now += 2
    await member.beat()
    await asyncio.to_thread(wait_for, lambda: len(duties.terms) == 2, 10, "another term")


async def test_a_term_that_fails_gives_the_leadership_back(enter: Enter, registry: Registry) -> None:
    member = enter("a", Duties(fails=True))
    await member.join()
    await asyncio.to_thread(wait_for, lambda: (lease := registry.lease()) and not lease.expires_at, 10, "given back")
    assert not member.leads
