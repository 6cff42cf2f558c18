"""An HTTP port inside the bridge's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import uvicorn

from bridge.errors import Unavailable
from bridge.http_tls import TlsProtocol

KEEP_ALIVE_SECONDS = 60
"""How long an idle connection stays open: longer than the pools of common clients and proxies keep theirs."""


class HttpBindError(Unavailable):
    """An address of an HTTP server cannot be bound."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(f"The HTTP address {host}:{port} cannot be bound: {error.strerror}.")


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without its signal handlers, which belong to the bridge, and with an event for its start."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()


class HttpServer:
    """Serves one ASGI application on one port. `tls` makes the port HTTPS. With `reuse_port` servers in other processes
    may share the port."""

    def __init__(self, app: Any, tls: ssl.SSLContext | None = None, *, reuse_port: bool = False) -> None:
        self._reuse_port = reuse_port
        self._config = uvicorn.Config(
            app,
            http="httptools" if tls is None else TlsProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ssl_context_factory=None if tls is None else lambda config, default: tls,
        )
        self._server: _EmbeddedServer | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Serve on `host` and `port`; port 0 takes a free one. The port. Raises Unavailable if it is taken."""
        listener = _listen(host, port, reuse_port=self._reuse_port)
        self._server = _EmbeddedServer(self._config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listener]))
        await self._server.serving.wait()
        bound: int = listener.getsockname()[1]
        return bound

    async def stop(self, grace: float) -> None:
        """Take no new connections, let requests in flight finish for `grace` seconds, then cancel them."""
        if self._server is not None and self._task is not None:
            self._config.timeout_graceful_shutdown = max(1, round(grace))
            self._server.should_exit = True
            await self._task


def _listen(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server(
            (host, port), family=family, backlog=2048, reuse_port=reuse_port, dualstack_ipv6=host == "::"
        )
    except OSError as error:
        raise HttpBindError(host, port, error) from error
    # Connections inherit it. uvloop sets it by itself, asyncio's own loop does not on sockets that it did not make, and
    # then each response waits 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
