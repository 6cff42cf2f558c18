"""Where management calls are answered: in this process while it leads, else by the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.types import ASGIApp

from bridge.errors import Unavailable
from bridge.tfserving.rpc import Rpc

T = TypeVar("T")

ENDED = "This replica leads no more; whether the call was carried out is unknown."


@dataclass(frozen=True)
class Office:
    """What answers management calls for one term: RPCs by service and method, and the admin port's application."""

    rpcs: Mapping[str, Mapping[str, Rpc]]
    admin: ASGIApp
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        """The term is over: calls in work answer UNAVAILABLE."""
        self._ended.set()

    async def within(self, work: Awaitable[T]) -> T:
        """Await `work`. Raises Unavailable when the term ends before it does."""
        task, ended = asyncio.ensure_future(work), asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Unavailable(ENDED)
            return task.result()
        finally:
            task.cancel()
            ended.cancel()
