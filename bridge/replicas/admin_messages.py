"""Requests to the admin port and their answers as messages, and how an application answers one in this process."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope

from bridge.errors import InvalidArgument

BODY_LIMIT = 4 << 20
"""Bytes of a request's body that are passed on."""

_PASSED_ON = ("method", "path", "scheme", "client", "extensions")


async def pack_request(scope: Scope, receive: Receive) -> bytes:
    """A request as it came, with its body and what is known of who sent it. Raises InvalidArgument.

    The port that it came by has checked its host; the other one need not know that name.
    """
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"] if name != b"host"]
    head = {name: scope[name] for name in _PASSED_ON if name in scope}
    head |= {"headers": [*headers, ["host", "localhost"]], "query": scope["query_string"].decode("latin-1")}
    return orjson.dumps(head) + b"\n" + await _body(receive)


async def answer(app: ASGIApp, message: bytes) -> bytes:
    """What `app` answers to a packed request."""
    head, _, body = message.partition(b"\n")
    response = _Response()
    await app(_scope(orjson.loads(head)), _once(body), response.send)
    return response.packed()


def unpack_response(message: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body."""
    head, _, body = message.partition(b"\n")
    value = orjson.loads(head)
    headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in value["headers"]]
    return value["status"], headers, body


def _scope(head: dict[str, Any]) -> Scope:
    client = head.get("client")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "root_path": "",
        "raw_path": head["path"].encode(),
        "query_string": head["query"].encode("latin-1"),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head["headers"]],
        "client": None if client is None else tuple(client),
        "server": None,
        **{name: head[name] for name in ("method", "path", "scheme", "extensions") if name in head},
    }


def _once(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _body(receive: Receive) -> bytes:
    data = bytearray()
    while True:
        message = await receive()
        data += message.get("body", b"")
        if len(data) > BODY_LIMIT:
            raise InvalidArgument(f"the body is larger than {BODY_LIMIT} bytes")
        if not message.get("more_body", False):
            return bytes(data)


class _Response:
    def __init__(self) -> None:
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    def packed(self) -> bytes:
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self._headers]
        return orjson.dumps({"status": self._status, "headers": headers}) + b"\n" + bytes(self._body)
