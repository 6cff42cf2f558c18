"""Sessions of browsers: a cookie that holds the bearer token, sealed with a key that only this process has.

The token itself stays with the server: cookies go to every port of a host, so other servers on this machine see them.
Each request is judged by the token as the file of tokens says at that moment, so whoever loses an entry there is out
at once. A restart ends all sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from bridge.clock import Clock, SystemClock

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

HOURS = 12
"""After which a session ends in any case."""
_SECOND = 1_000_000


class Sessions:
    """Seals tokens into cookies and opens them again."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def cookie(self, token: str, scope: Mapping[str, Any]) -> str:
        """The Set-Cookie header for a token."""
        sealed = self._seal.encrypt_at_time(token.encode(), self._now()).decode()
        return _cookie(scope, sealed, HOURS * 3600)

    def end(self, scope: Mapping[str, Any]) -> str:
        """The Set-Cookie header that ends a session."""
        return _cookie(scope, "", 0)

    def token(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> str:
        """The token of the request's session, empty where there is none or it is over."""
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(_name(scope))
        except CookieError:
            return ""
        return "" if morsel is None else self._opened(morsel.value)

    @cached_property
    def _seal(self) -> Fernet:
        # The library takes 8 MB, which servers without logins do without.
        from cryptography.fernet import Fernet

        return Fernet(Fernet.generate_key())

    def _opened(self, sealed: str) -> str:
        from cryptography.fernet import InvalidToken

        try:
            return self._seal.decrypt_at_time(sealed.encode(), HOURS * 3600, self._now()).decode()
        except InvalidToken:
            return ""

    def _now(self) -> int:
        return self._clock.now() // _SECOND


def _name(scope: Mapping[str, Any]) -> str:
    """Bridges on one host have a cookie each, although browsers do not tell ports apart."""
    server = scope.get("server")
    return f"bridge_session_{server[1] if server else 0}"


def _cookie(scope: Mapping[str, Any], value: str, seconds: int) -> str:
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{_name(scope)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
