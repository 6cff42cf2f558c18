"""What stands before the admin port's application for browsers: sessions, and no changes by pages of other sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.access import http_gate, methods
from bridge.access.gate import Gate
from bridge.access.identity import Credentials
from bridge.access.identity import Scope as AccessScope
from bridge.console import questions, same_origin
from bridge.console.answers import error_response
from bridge.console.pages.renderer import HEADERS, Renderer
from bridge.console.same_origin import SESSION
from bridge.console.sessions import Sessions
from bridge.errors import BridgeError, InvalidArgument

LOGIN, LOGOUT = "/login", "/logout"
PAGES = frozenset(
    method.removeprefix("GET ")
    for method, needed in methods.CONSOLE.items()
    if method.startswith("GET ") and needed is not None
)
"""What a browser is sent to the login for."""

Headers = Mapping[str, str]


class Front:
    """ASGI middleware. `gate` is that of the port behind it: where it asks for nothing, there is nothing to log in to.

    What a session stands for is put into the request as an Authorization header, so whatever lies behind, be it in
    another replica, sees one kind of credentials.
    """

    def __init__(self, app: ASGIApp, gate: Gate, sessions: Sessions, renderer: Renderer) -> None:
        self._app = app
        self._gate = gate
        self._sessions = sessions
        self._renderer = renderer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = http_gate.text_headers(scope)
        scope, app = self._with_session(scope, headers), self._app
        try:
            same_origin.check(scope["method"], headers)
            response = await self._own(Request(scope, receive), headers)
        except BridgeError as error:
            response = error_response(error.message, error.code, error.http_status)
        await (response or app)(scope, receive, send)

    async def _own(self, request: Request, headers: Headers) -> Response | None:
        """The answer where this is not left to the application."""
        match request.method, request.url.path:
            case (("GET" | "HEAD"), path) if path in PAGES and self._is_unknown(request.scope):
                return _to(f"{LOGIN}?next={quote(_target(request), safe='')}")
            case (("GET" | "HEAD"), "/login"):
                query = questions.parameters(request, "next")
                return self._form(request.scope, query.get("next", "")) if self._gate.closed else _to("/")
            case "POST", "/login":
                return await self._log_in(request, headers)
            case "POST", "/logout":
                response = _to(LOGIN if self._gate.closed else "/")
                response.headers["set-cookie"] = self._sessions.end(request.scope)
                return response
        return None

    async def _log_in(self, request: Request, headers: Headers) -> Response:
        fields = await questions.form(request, "token", "next")
        token, page = fields["token"].strip(), _own_page(fields["next"])
        try:
            if not token:
                raise InvalidArgument("Enter a token.")
            shown = http_gate.credentials(request.scope, {})
            presented = Credentials(f"Bearer {token}", shown.subject, shown.peer)
            self._gate.admit("POST /login", AccessScope.READ, presented, headers)
        except BridgeError as error:
            return self._form(request.scope, page, error)
        response = _to(page)
        response.headers["set-cookie"] = self._sessions.cookie(token, request.scope)
        return response

    def _form(self, scope: Scope, page: str, error: BridgeError | None = None) -> Response:
        return login_page(self._renderer, scope, _own_page(page), error)

    def _with_session(self, scope: Scope, headers: Headers) -> Scope:
        token = "" if "authorization" in headers else self._sessions.token(scope, headers)
        if not token:
            return scope
        authorization = (b"authorization", f"Bearer {token}".encode())
        return {**scope, "headers": [*scope["headers"], authorization], SESSION: True}

    def _is_unknown(self, scope: Scope) -> bool:
        """Whether the caller shows nothing at all, which is how everybody comes first and no denied call."""
        shown = http_gate.credentials(scope, http_gate.text_headers(scope))
        return self._gate.closed and not shown.authorization and not shown.subject


class Denied:
    """Answers denied calls: of pages with a page, of the API with JSON."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def __call__(self, scope: Mapping[str, Any], error: BridgeError) -> Response:
        if f"{scope['method']} {scope['path']}" not in methods.CONSOLE:
            return http_gate.denied_as_json(scope, error)
        if error.http_status == 401:
            response = login_page(self._renderer, scope, _own_page(_target(Request(dict(scope)))), error)
        else:
            response = self._renderer.page("error.html", scope, error.http_status, sentence=error.message)
        response.headers["www-authenticate"] = http_gate.challenge(error)
        return response


def login_page(renderer: Renderer, scope: Mapping[str, Any], page: str, error: BridgeError | None) -> Response:
    """The form for a token, with what was wrong with the last one."""
    status = error.http_status if error is not None else 200
    return renderer.page("login.html", scope, status, next=page, sentence=error.message if error is not None else "")


def _to(location: str) -> Response:
    response = RedirectResponse(location, 303)
    response.headers.update(HEADERS)
    return response


def _target(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _own_page(target: str) -> str:
    """A page of this console and no other place."""
    return target if target.partition("?")[0] in PAGES else "/"
