"""Sessions: a token sealed into a cookie."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.console.sessions import HOURS, Sessions

SCOPE: dict[str, Any] = {"scheme": "http", "server": ("127.0.0.1", 8502)}
HOUR = 3_600_000_000


class SetClock:
    def __init__(self) -> None:
        self.time = 1_800_000_000_000_000

    def now(self) -> int:
        return self.time


def sent(cookie: str, *more: str) -> dict[str, str]:
    """The headers of a browser that was given this cookie."""
    return {"cookie": "; ".join([cookie.partition(";")[0], *more])}


@pytest.mark.parametrize("token", ["secret", "A-Za.z0_9~+/==", "schlüssel"])
def test_a_session_gives_its_token_back_and_hides_it(token: str) -> None:
    sessions = Sessions()
    cookie = sessions.cookie(token, SCOPE)
    assert token not in cookie
    assert cookie.startswith("bridge_session_8502=")
    assert cookie.endswith(f"; Path=/; Max-Age={HOURS * 3600}; HttpOnly; SameSite=Strict")
    assert sessions.token(SCOPE, sent(cookie, "other=1")) == token


def test_over_tls_the_cookie_is_secure() -> None:
    assert Sessions().cookie("t", {**SCOPE, "scheme": "https"}).endswith("; Secure")


def test_a_session_ends_after_its_hours() -> None:
    clock = SetClock()
    sessions = Sessions(clock)
    headers = sent(sessions.cookie("t", SCOPE))
    clock.time += HOURS * HOUR
    assert sessions.token(SCOPE, headers) == "t"
    clock.time += 1_000_000
    assert sessions.token(SCOPE, headers) == ""


def test_what_is_no_session_of_this_process_counts_for_nothing() -> None:
    sessions, other = Sessions(), Sessions()
    foreign = other.cookie("t", SCOPE)
    headers = [
        {},
        sent(foreign),
        sent(sessions.end(SCOPE)),
        {"cookie": "bridge_session_8502=x"},
        {"cookie": "\x00;=;;"},
    ]
    assert {sessions.token(SCOPE, item) for item in headers} == {""}
    assert sessions.token({**SCOPE, "server": ("127.0.0.1", 9)}, sent(sessions.cookie("t", SCOPE))) == ""
