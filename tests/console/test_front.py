"""Log in, sessions and log out over HTTP, behind a gate that asks for everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from tests.access.callers import Watched
from tests.console.admin_server import AdminServer, Reply

FORM = {"content-type": "application/x-www-form-urlencoded"}
NO_SCRIPT = "default-src 'none'"


class Place(NamedTuple):
    """A server of `half` whose label was set, and what was denied."""

    server: AdminServer
    watched: Watched

    def log_in(self, token: str, page: str = "/") -> Reply:
        return self.server.ask("POST", "/login", body=urlencode({"token": token, "next": page}).encode(), headers=FORM)

    def session(self, token: str = "ops-token") -> dict[str, str]:
        """The headers of a browser that is logged in."""
        return {"cookie": self.log_in(token).headers["set-cookie"].partition(";")[0]}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    watched = Watched(port="admin")
    server = AdminServer(tmp_path / "bridge.db", gate=watched.gate)
    try:
        server.add_model("half", 1)
        yield Place(server, watched)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("path", "login"),
    [
        ("/", "/login?next=%2F"),
        ("/models?name=a%2Fb", "/login?next=%2Fmodels%3Fname%3Da%252Fb"),
        ("/history", "/login?next=%2Fhistory"),
        ("/rollback", "/login?next=%2Frollback"),
    ],
)
def test_strangers_are_sent_to_the_login_and_not_denied(place: Place, path: str, login: str) -> None:
    reply = place.server.ask("GET", path)
    assert (reply.status, reply.headers["location"]) == (303, login)
    assert place.watched.denied == []


def test_the_api_says_no_as_ever(place: Place) -> None:
    reply = place.server.ask("GET", "/api/v1/models")
    assert (reply.status, reply.json["code"]) == (401, "UNAUTHENTICATED")
    assert reply.headers["www-authenticate"] == 'Bearer realm="triton-bridge"'


def test_files_of_the_login_page_are_everybodys(place: Place) -> None:
    for path in ("/login", "/static/console.css", "/static/console.js", "/static/icon.svg"):
        assert place.server.ask("GET", path).status == 200


@pytest.mark.parametrize(
    ("asked", "led"),
    [
        ("/history?subject=model%3Ahalf", "/history?subject=model%3Ahalf"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/login", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_to_pages_of_this_console_only(place: Place, asked: str, led: str) -> None:
    reply = place.log_in("ops-token", asked)
    assert (reply.status, reply.headers["location"]) == (303, led)


@pytest.mark.parametrize(
    ("token", "status", "sentence"),
    [
        ("wrong", 401, "The bearer token is not one that this server knows."),
        ("", 400, "Enter a token."),
        ("old-token", 401, "The token of &#39;old&#39; expired at 2023-11-14T22:14:00Z."),
        ("app-token", 403, "&#39;app&#39; does not have the scope read, which POST /login needs."),
    ],
)
def test_other_tokens_open_nothing(place: Place, token: str, status: int, sentence: str) -> None:
    reply = place.log_in(token, "/history")
    page = reply.body.decode()
    assert reply.status == status
    assert sentence in page
    assert 'name="next" value="/history"' in page
    assert "set-cookie" not in reply.headers
    assert not token or f'value="{token}' not in page


def test_a_session_reads_listens_and_changes(place: Place) -> None:
    session = place.session()
    assert "Signed in as <strong>ops</strong>" in place.server.ask("GET", "/", headers=session).body.decode()
    assert place.server.ask("GET", "/api/v1/models", headers=session).status == 200
    where = {"model": "half", "label": "stable"}
    own = {**session, "origin": f"http://127.0.0.1:{place.server.port}"}
    assert place.server.ask("PUT", "/api/v1/label", where, {"version": 1}, own).json == {"changed": True}
    [event] = place.server.registry.events(subject="label:half/stable")
    assert (event.actor, event.source) == ("ops", "admin")


def test_pages_of_other_sites_cannot_use_a_session(place: Place) -> None:
    where = {"model": "half", "label": "stable"}
    for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "same-site"}, {"origin": "null"}):
        reply = place.server.ask("PUT", "/api/v1/label", where, {"version": 1}, {**place.session(), **foreign})
        assert (reply.status, reply.json["code"]) == (403, "PERMISSION_DENIED")
    assert place.server.registry.labels("half") == {}


def test_a_token_in_a_header_goes_before_the_session(place: Place) -> None:
    reply = place.server.ask("GET", "/api/v1/models", headers={**place.session(), "authorization": "Bearer wrong"})
    assert reply.status == 401


def test_who_loses_the_token_is_out_at_once(place: Place) -> None:
    session = place.session()
    place.watched.identities.entries = type(place.watched.identities.entries)()
    reply = place.server.ask("GET", "/history", headers=session)
    assert reply.status == 401
    assert "The bearer token is not one that this server knows." in reply.body.decode()
    assert "<h1>Log in</h1>" in reply.body.decode()


def test_log_out_ends_the_session_in_the_browser(place: Place) -> None:
    reply = place.server.ask("POST", "/logout", headers=place.session())
    assert (reply.status, reply.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in reply.headers["set-cookie"]


def test_login_and_denials_are_pages_as_the_others(place: Place) -> None:
    for reply in (place.server.ask("GET", "/login"), place.log_in("wrong")):
        assert reply.headers["content-security-policy"].startswith(NO_SCRIPT)
        assert reply.headers["cache-control"] == "no-store"


def test_without_a_gate_that_asks_there_is_no_login(tmp_path: Path) -> None:
    server = AdminServer(tmp_path / "bridge.db", gate=Watched(()).gate)
    try:
        reply = server.ask("GET", "/login")
        assert (reply.status, reply.headers["location"]) == (303, "/")
        page = server.ask("GET", "/").body.decode()
        assert "Signed in" not in page
    finally:
        server.close()
