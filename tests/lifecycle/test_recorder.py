from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bridge.errors import InvalidArgument, Unavailable
from bridge.lifecycle.recorder import Recorder


class Database:
    """Stands in for the registry's thread: away for the first `failures` calls."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.written: list[int] = []

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the database is away")
        return function(*args)


@pytest.mark.parametrize("failures", [0, 1, 2])
async def test_keeps_order_while_the_database_is_away(failures: int) -> None:
    database = Database(failures)
    recorder = Recorder(database.call)
    running = asyncio.create_task(recorder.run())
    for number in range(20):
        recorder.record(database.written.append, number)
    assert await recorder.flush(10)
    assert database.written == list(range(20))
    running.cancel()


async def test_a_refused_call_does_not_hold_up_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise InvalidArgument("no such model")

    database = Database()
    recorder = Recorder(database.call)
    running = asyncio.create_task(recorder.run())
    recorder.record(refuse)
    recorder.record(database.written.append, 1)
    assert await recorder.flush(10)
    assert database.written == [1]
    assert "no such model" in caplog.text
    running.cancel()


async def test_flush_says_when_it_did_not_get_there() -> None:
    database = Database(failures=10**6)
    recorder = Recorder(database.call)
    running = asyncio.create_task(recorder.run())
    recorder.record(database.written.append, 1)
    assert not await recorder.flush(0.05)
    running.cancel()
