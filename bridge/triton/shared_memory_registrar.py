"""Triton's register of system shared memory, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson

from bridge.triton import errors
from bridge.triton.http_messages import Response, header_line
from bridge.triton.http_pool import ConnectionPool

_REGISTER = "/v2/systemsharedmemory"


class Registrar:
    """Talks to the server behind `pool`; `deadline` is a time of the event loop. Every method raises CallError."""

    def __init__(self, pool: ConnectionPool, address: str, headers: Mapping[str, str]) -> None:
        self._pool = pool
        self._address = address
        self._headers = [header_line(name, value) for name, value in headers.items()]

    async def register(self, name: str, size: int, deadline: float) -> None:
        """Have Triton map the file `name`, all `size` bytes of it."""
        await self._ask(
            "POST", f"/region/{name}/register", deadline, {"key": f"/{name}", "offset": 0, "byte_size": size}
        )

    async def unregister(self, name: str, deadline: float) -> None:
        """Have Triton forget `name`; an unknown one is no error, one that a request uses is."""
        await self._ask("POST", f"/region/{quote(name, safe='')}/unregister", deadline, {})

    async def names(self, deadline: float) -> list[str]:
        """Whatever is registered."""
        response = await self._ask("GET", "/status", deadline)
        found = orjson.loads(bytes(response.body))
        return [str(item["name"]) for item in found] if isinstance(found, list) else []

    async def _ask(self, method: str, path: str, deadline: float, body: Mapping[str, Any] | None = None) -> Response:
        content = orjson.dumps(body) if body is not None else b""
        lines = [
            f"{method} {_REGISTER}{path} HTTP/1.1",
            f"Host: {self._address}",
            f"Content-Length: {len(content)}",
            *self._headers,
        ]
        head = "\r\n".join(lines).encode("latin-1")
        response = await self._pool.exchange([head + b"\r\n\r\n" + content], deadline)
        if response.status != 200:
            raise errors.from_http(response.status, response.body, self._address)
        return response
