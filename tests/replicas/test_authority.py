from __future__ import annotations

import asyncio

from bridge.replicas.authority import Authority
from tests.replicas.conftest import ManualTime


async def test_who_does_not_renew_in_time_decides_nothing(time: ManualTime) -> None:
    authority = Authority(time)
    assert not authority.held
    authority.extend(time.now + 5)
    await authority.wait()
    time.now += 5
    assert not authority.held
    waiting = asyncio.create_task(authority.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    authority.extend(time.now + 5)
    await waiting


async def test_who_stepped_down_never_decides_again(time: ManualTime) -> None:
    authority = Authority(time)
    authority.extend(time.now + 5)
    authority.end()
    waiting = asyncio.create_task(authority.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
