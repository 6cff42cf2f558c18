"""The HTTP port: what TF Serving's REST API needs of HTTP, as an ASGI application, and the V2 protocol beside it."""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from bridge.http_server import HttpServer
from bridge.kserve.rest_api import V2RestApi
from bridge.kserve.rest_urls import is_v2
from bridge.memory import MemoryTrimmer
from bridge.serving.infer import InferenceCore
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving.metrics_page import MetricsPage
from bridge.tfserving.offload import LARGE, Offload
from bridge.tfserving.rest_access import METRICS, RestAccess, action
from bridge.tfserving.rest_api import Reply, RestApi
from bridge.tfserving.rest_urls import is_api

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

INFLATED_LIMIT = 100 * 1024 * 1024
"""Bytes of an inflated request body."""

CHUNK = 1 << 18
"""Bytes of a body that are written at once; the next ones wait until the client has taken most of them."""

_METHODS = frozenset({"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"})
_CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}


class RestServer:
    """The REST port.

    `timeout_in_ms` bounds inference calls, 0 or less means none; `threads` convert large bodies; `cors` adds the CORS
    headers; `tls` makes it HTTPS; `page` is the Prometheus page; `access` denies requests; with
    `reuse_port` other processes may share the port.
    """

    def __init__(
        self,
        core: InferenceCore,
        *,
        timeout_in_ms: int = 30_000,
        threads: int = 4,
        cors: bool = False,
        tls: ssl.SSLContext | None = None,
        page: MetricsPage | None = None,
        observe: RequestObserver = unobserved,
        access: RestAccess | None = None,
        reuse_port: bool = False,
    ) -> None:
        self._offload = Offload(max(1, threads))
        self._memory = MemoryTrimmer()
        timeout = timeout_in_ms / 1000 if timeout_in_ms > 0 else None
        api = RestApi(core, timeout, self._offload, observe)
        v2 = V2RestApi(core, timeout, self._offload, observe)
        app = RestApp(api, v2, self._offload, self._memory, cors=cors, page=page, access=access)
        self._server = HttpServer(app, tls, reuse_port=reuse_port)

    async def start(self, host: str, port: int) -> int:
        """Serve on `host` and `port`; port 0 takes a free one. The port. Raises Unavailable if it is taken."""
        return await self._server.start(host, port)

    async def stop(self, grace: float) -> None:
        """Take no new connections, let requests in flight finish for `grace` seconds, then cancel them."""
        await self._server.stop(grace)
        self._offload.close()
        self._memory.close()


class RestApp:
    """ASGI application: dispatch as TF Serving's HTTP server does it, before and after the REST API.

    Only the paths of the V2 protocol, which TF Serving does not know, go another way.
    """

    def __init__(
        self,
        api: RestApi,
        v2: V2RestApi,
        offload: Offload,
        memory: MemoryTrimmer,
        *,
        cors: bool,
        page: MetricsPage | None,
        access: RestAccess | None = None,
    ) -> None:
        self._api = api
        self._v2 = v2
        self._offload = offload
        self._memory = memory
        self._headers = _cors_headers(authorized=access is not None) if cors else {}
        self._access = access
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        denial = self._denial(scope)
        if denial is not None:
            await _send(send, denial)
            return
        body = await _read_body(receive)
        if body is None:
            return
        reply = await self._reply(scope, body)
        size = len(body) + len(reply.body)
        del body
        await _send(send, reply)
        self._memory.used(size)

    def _denial(self, scope: Scope) -> Reply | None:
        """The answer to a request that is denied, which is said before its body is read."""
        if self._access is None:
            return None
        target = _target(scope)
        page = self._page is not None and self._page.serves(target)
        reply = self._access.denial(scope, METRICS if page else action(scope["method"], target))
        return replace(reply, headers={**reply.headers, **self._headers}) if reply is not None else None

    async def _reply(self, scope: Scope, body: bytes) -> Reply:
        method, target = scope["method"], _target(scope)
        if method not in _METHODS:
            return _html(HTTPStatus.NOT_IMPLEMENTED)
        if self._page is not None and self._page.serves(target):
            return await self._page.reply(target)
        if not is_api(target) and not is_v2(target):
            return _html(HTTPStatus.NOT_FOUND)
        reply = await self._answer(method, target, dict(scope["headers"]), body)
        return replace(reply, headers={**reply.headers, **self._headers}) if self._headers else reply

    async def _answer(self, method: str, target: str, headers: Mapping[bytes, bytes], body: bytes) -> Reply:
        if method == "OPTIONS":
            return self._api.preflight(headers.get(b"origin", b"").decode("latin-1"))
        if is_v2(target):
            return await self._v2.handle(method, target, headers, body)
        if b"gzip" in headers.get(b"content-encoding", b""):
            body = await self._offload.run(LARGE, inflate, body)
        return await self._api.handle(method, target, body)


def _cors_headers(*, authorized: bool) -> Mapping[str, str]:
    """A page that has to show a token may send it."""
    if not authorized:
        return _CORS_HEADERS
    return {**_CORS_HEADERS, "Access-Control-Allow-Headers": "Content-Type, Authorization"}


def inflate(body: bytes, limit: int = INFLATED_LIMIT) -> bytes:
    """A gzip body inflated; one that is corrupt or larger than `limit` bytes reads as empty, as in TF Serving."""
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        data = inflater.decompress(body, limit + 1)
    except zlib.error:
        return b""
    return data if inflater.eof and len(data) <= limit else b""


def _target(scope: Scope) -> str:
    raw = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    target: str = raw.decode("utf-8", "surrogateescape")
    return target


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body, None if the client went away."""
    chunks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _send(send: Send, reply: Reply) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.content_type:
        headers.append((b"content-type", reply.content_type.encode()))
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body = memoryview(reply.body)
    while len(body) > CHUNK:
        await send({"type": "http.response.body", "body": bytes(body[:CHUNK]), "more_body": True})
        body = body[CHUNK:]
    await send({"type": "http.response.body", "body": bytes(body)})


def _html(status: HTTPStatus) -> Reply:
    """What TF Serving's HTTP library answers by itself: a page, and the end of the connection."""
    title = f"{status.value} {status.phrase}"
    page = f"<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>\n"
    return Reply(status.value, page.encode(), "text/html", {"Connection": "close"})
