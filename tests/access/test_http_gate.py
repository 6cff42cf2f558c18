"""A gate before ASGI applications."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bridge.access import http_gate
from bridge.access.http_gate import GatedApp
from bridge.access.identity import Identity, Kind
from bridge.access.methods import ADMIN
from tests.access.callers import SUBJECT, Watched

REALM = 'Bearer realm="triton-bridge"'


class Answer:
    """What a gated application answered to one request; `name` is who called as it knows."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.body = b""
        self.caller: Identity | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.caller = http_gate.identity(Request(scope).scope)
        await Response("served")(scope, receive, send)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]


async def ask(
    watched: Watched, method: str, path: str, headers: Mapping[str, str] | None = None, subject: str | None = None
) -> Answer:
    answer = Answer()
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "client": ("10.0.0.1", 4242),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        "extensions": {"tls": {"client_cert_name": subject}},
    }
    await GatedApp(answer.app, watched.gate, ADMIN)(scope, None, answer.send)  # type: ignore[arg-type]
    return answer


@pytest.mark.parametrize(
    ("method", "path", "token", "status", "challenge"),
    [
        ("GET", "/livez", "", 200, ""),
        ("HEAD", "/readyz", "wrong", 200, ""),
        ("GET", "/metrics", "", 401, REALM),
        ("GET", "/metrics", "ops-token", 200, ""),
        ("GET", "/api/v1/models", "wrong", 401, f'{REALM}, error="invalid_token"'),
        ("GET", "/api/v1/models", "old-token", 401, f'{REALM}, error="invalid_token"'),
        ("GET", "/api/v1/models", "app-token", 403, f'{REALM}, error="insufficient_scope"'),
        ("HEAD", "/api/v1/models", "ops-token", 200, ""),
        ("PUT", "/api/v1/label", "ops-token", 200, ""),
        ("PUT", "/api/v1/label", "app-token", 403, f'{REALM}, error="insufficient_scope"'),
        ("GET", "/what/there/is/not", "", 401, REALM),
        ("GET", "/what/there/is/not", "ops-token", 200, ""),
        ("POST", "/livez", "", 401, REALM),
    ],
)
async def test_routes(method: str, path: str, token: str, status: int, challenge: str) -> None:
    answer = await ask(Watched(), method, path, {"authorization": f"Bearer {token}"} if token else {})
    assert (answer.status, answer.headers.get("www-authenticate", "")) == (status, challenge)


async def test_a_denial_is_one_sentence_with_its_code() -> None:
    watched = Watched()
    answer = await ask(watched, "GET", "/api/v1/models", {"authorization": "Bearer app-token", "x-request-id": "7"})
    sentence = "'app' does not have the scope read, which GET /api/v1/models needs."
    assert json.loads(answer.body) == {"error": sentence, "code": "PERMISSION_DENIED"}
    [denial] = watched.denied
    assert (denial.peer, denial.method, denial.metadata["x-request-id"]) == (
        "10.0.0.1:4242",
        "GET /api/v1/models",
        "7",
    )


async def test_clients_do_not_choose_the_names_in_the_history() -> None:
    watched = Watched()
    await ask(watched, "GET", "/a/path/of/theirs")
    assert watched.denied[0].method == http_gate.UNLISTED


async def test_a_certificate_is_an_identity() -> None:
    answer = await ask(Watched(), "PUT", "/api/v1/label", subject=SUBJECT)
    assert (answer.status, answer.caller and answer.caller.name) == (200, SUBJECT)
    assert (await ask(Watched(), "PUT", "/api/v1/label", subject="CN=stranger")).status == 403


async def test_an_open_port_knows_who_calls() -> None:
    watched = Watched(())
    assert (await ask(watched, "PUT", "/api/v1/label")).caller == Identity("10.0.0.1:4242", Kind.PEER)
    named = await ask(watched, "PUT", "/api/v1/label", {"authorization": "Bearer ops-token"})
    assert named.caller is not None
    assert named.caller.name == "ops"


def test_headers_are_utf_8_or_latin_1() -> None:
    scope = {"headers": [(b"a", "é".encode()), (b"b", "é".encode("latin-1")), (b"c", b"1"), (b"c", b"2")]}
    assert http_gate.text_headers(scope) == {"a": "é", "b": "é", "c": "2"}


def test_a_peer_of_ipv6_is_in_brackets() -> None:
    assert http_gate.credentials({"client": ("::1", 7)}, {}).peer == "[::1]:7"
    assert http_gate.credentials({"client": None}, {}).peer == "unknown"
