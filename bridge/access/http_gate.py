"""Gates before HTTP: what a request shows of its caller, and how a denial is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.access import methods
from bridge.access.gate import Gate
from bridge.access.identities import Unauthenticated
from bridge.access.identity import Credentials, Identity
from bridge.access.identity import Scope as AccessScope
from bridge.access.methods import Needs
from bridge.errors import BridgeError, Code

IDENTITY = "bridge.identity"
"""Where the ASGI scope of a request holds who calls."""
PERMITTED = "bridge.permitted"
"""Where it holds the scopes that the caller has."""
REALM = 'Bearer realm="triton-bridge"'
Denied = Callable[[Mapping[str, Any], BridgeError], Response]

UNLISTED = "anything else"
"""What denials name that have no name of their own: clients must not choose the names in the history."""


def denied_as_json(scope: Mapping[str, Any], error: BridgeError) -> Response:
    """The answer to a denied call."""
    body = orjson.dumps({"error": error.message, "code": error.code.name})
    headers = {"WWW-Authenticate": challenge(error)}
    return Response(body, error.http_status, headers, "application/json")


class GatedApp:
    """ASGI middleware: lets requests pass by `METHOD /path` in `needs`, and tells `app` who calls.

    `denied` makes the answers to requests that do not pass.
    """

    def __init__(self, app: ASGIApp, gate: Gate, needs: Needs, denied: Denied = denied_as_json) -> None:
        self._app = app
        self._gate = gate
        self._needs = needs
        self._denied = denied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        verb = "GET" if scope["method"] == "HEAD" else scope["method"]
        method = f"{verb} {scope['path']}"
        needed = self._needs.get(method, methods.UNLISTED)
        name = method if method in self._needs else UNLISTED
        headers = text_headers(scope)
        try:
            identity = self._gate.admit(name, needed, credentials(scope, headers), headers)
        except BridgeError as error:
            await self._denied(scope, error)(scope, receive, send)
            return
        scope[IDENTITY], scope[PERMITTED] = identity, self._gate.permitted(identity)
        await self._app(scope, receive, send)


def text_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """The header fields by lower-case name, the last of each; clients send UTF-8 or Latin-1."""
    return {name.decode("latin-1"): _text(value) for name, value in scope["headers"]}


def credentials(scope: Mapping[str, Any], headers: Mapping[str, str]) -> Credentials:
    """What an HTTP request shows of its caller."""
    tls = scope.get("extensions", {}).get("tls", {})
    return Credentials(headers.get("authorization", ""), tls.get("client_cert_name") or "", _peer(scope))


def identity(scope: Mapping[str, Any]) -> Identity:
    """Who calls, as the gate found, or as far as that is known without one."""
    found = scope.get(IDENTITY)
    return found if isinstance(found, Identity) else credentials(scope, {}).unproven()


def permitted(scope: Mapping[str, Any]) -> frozenset[AccessScope]:
    """The scopes that the caller has; all where no gate asks for any."""
    found = scope.get(PERMITTED)
    return found if isinstance(found, frozenset) else frozenset(AccessScope)


def challenge(error: BridgeError) -> str:
    """The WWW-Authenticate header of a denial, as RFC 6750 has it."""
    if error.code is Code.PERMISSION_DENIED:
        return f'{REALM}, error="insufficient_scope"'
    presented = isinstance(error, Unauthenticated) and error.presented
    return f'{REALM}, error="invalid_token"' if presented else REALM


def _peer(scope: Mapping[str, Any]) -> str:
    client = scope.get("client")
    if not client:
        return "unknown"
    host, port = client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
