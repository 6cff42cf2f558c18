"""An HTTP application whose changes are acknowledged once every worker answers by them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Acknowledged:
    """Holds back the answers of `app` to requests that may change something until `in_step` returns."""

    def __init__(self, app: ASGIApp, in_step: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._in_step = in_step

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in READS:
            await self._app(scope, receive, send)
            return

        async def acknowledge(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._in_step()
            await send(message)

        await self._app(scope, receive, acknowledge)
