from __future__ import annotations

import asyncio

import pytest

from bridge.parts import Parts


async def test_parts_close_in_reverse_order_also_when_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("second")

    async def fail() -> None:
        raise OSError("stuck")

    parts = Parts(closed.append)
    parts.on_close_call(lambda: closed.append("first"))
    parts.on_close(fail)
    parts.on_close(close)
    await parts.close()
    await parts.close()
    assert closed == ["second", "first"]
    assert "stuck" in caplog.text


async def test_tasks_end_with_the_parts() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    failures: list[str] = []
    parts = Parts(failures.append)
    parts.spawn(work(), "work")
    await asyncio.sleep(0)
    await parts.close()
    assert ended.is_set()
    assert failures == []


async def test_a_task_that_fails_is_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    told = asyncio.get_running_loop().create_future()

    async def work() -> None:
        raise ValueError("broken")

    parts = Parts(told.set_result)
    parts.spawn(work(), "poller")
    assert await told == "poller"
    assert "broken" in caplog.text
    await parts.close()
