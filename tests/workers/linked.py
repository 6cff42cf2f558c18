"""Both ends of a worker's link in one process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from bridge.serving.lines import LINE_LIMIT, Lines
from bridge.serving.link import LinkHub

Words = Mapping[str, Callable[[bytes], None]]


async def pair() -> tuple[Lines, Lines]:
    """Two ends of one connection."""
    ends = socket.socketpair()
    first, second = [Lines(*await asyncio.open_unix_connection(sock=end, limit=LINE_LIMIT)) for end in ends]
    return first, second


@asynccontextmanager
async def served(hub: LinkHub, name: str = "worker-1") -> AsyncIterator[tuple[Lines, Callable[[Words], None]]]:
    """The worker's end of a connection that `hub` serves, and what makes that end listen to words."""
    ours, theirs = await pair()
    tasks = [asyncio.create_task(hub.serve(ours, name))]
    await asyncio.sleep(0)

    def listen(words: Words) -> None:
        def receive(word: str, document: bytes) -> None:
            if word in words:
                words[word](document)

        tasks.append(asyncio.create_task(theirs.run(receive)))

    try:
        yield theirs, listen
    finally:
        theirs.hang_up()
        ours.hang_up()
        await asyncio.gather(*tasks, return_exceptions=True)


class NoControl:
    """A Control that nobody tells anything."""

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None: ...

    def drained(self, router: str, epoch: int) -> None: ...

    def load_on_demand(self, model_id: str) -> None: ...

    def used(self, model_id: str, count: int) -> None: ...
