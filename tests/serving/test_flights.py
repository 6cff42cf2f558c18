from __future__ import annotations

import asyncio

import pytest

from bridge.errors import Code
from bridge.serving.flights import Copy, Flights
from bridge.triton.calls import CallError, Fault

COPY, OTHER = Copy("m", "one"), Copy("m", "two")
DIED = CallError("it died", Code.UNAVAILABLE, Fault.RUNNER)


async def fly(flights: Flights, copy: Copy, landed: asyncio.Event) -> str:
    with flights.start(copy):
        await landed.wait()
    return "landed"


async def test_a_failure_ends_the_earlier_flights_to_that_copy_only() -> None:
    flights, landed = Flights(), asyncio.Event()
    early = asyncio.ensure_future(fly(flights, COPY, landed))
    elsewhere = asyncio.ensure_future(fly(flights, OTHER, landed))
    await asyncio.sleep(0)
    mark = flights.next_number()
    late = asyncio.ensure_future(fly(flights, COPY, landed))
    await asyncio.sleep(0)
    flights.fail(COPY, DIED, before=mark)
    flights.fail(COPY, DIED, before=mark)
    with pytest.raises(CallError, match="it died"):
        await early
    landed.set()
    assert [await elsewhere, await late] == ["landed", "landed"]


async def test_the_clients_cancellation_wins() -> None:
    flights = Flights()
    task = asyncio.ensure_future(fly(flights, COPY, asyncio.Event()))
    await asyncio.sleep(0)
    flights.fail(COPY, DIED, before=flights.next_number())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failed_flight_leaves_its_task_usable() -> None:
    flights = Flights()

    async def twice() -> str:
        try:
            await fly(flights, COPY, asyncio.Event())
        except CallError:
            await asyncio.sleep(0)
            return "went on"
        return "landed"

    task = asyncio.ensure_future(twice())
    await asyncio.sleep(0)
    flights.fail(COPY, DIED, before=flights.next_number())
    assert await task == "went on"
    assert task.cancelling() == 0


async def test_overdue_looks_at_the_oldest_call() -> None:
    flights, landed = Flights(), asyncio.Event()
    tasks = [asyncio.ensure_future(fly(flights, COPY, landed)) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert list(flights.overdue(0.005)) == [COPY]
    assert list(flights.overdue(60)) == []
    landed.set()
    await asyncio.gather(*tasks)
    assert list(flights.overdue(0)) == []
