"""Which Host headers a loopback port answers to."""

from __future__ import annotations

import ipaddress

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.console.answers import error_response
from bridge.errors import Code


class LocalHosts:
    """ASGI middleware that refuses hosts other than IP addresses and localhost.

    A page of a hostile site can point its own name at 127.0.0.1 and have a browser on this machine call the port (DNS
    rebinding); the Host header then still carries that name. Pages of other sites under their true names are kept out
    by the browser itself, since no answer here carries CORS headers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = HTTPConnection(scope).headers.get("host", "")
        if is_local(host):
            await self._app(scope, receive, send)
            return
        message = f"this port answers to IP addresses and localhost only, not to the host '{host}'"
        await error_response(message, Code.PERMISSION_DENIED, 403)(scope, receive, send)


def is_local(host: str) -> bool:
    """Whether a Host header names an IP address or localhost, with or without a port."""
    name = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
