"""What the command shows of who runs it, against an admin port over HTTPS that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bridge.access.entries import parse
from bridge.cli.http_admin import HttpAdmin
from bridge.cli.login import Login
from bridge.errors import BridgeError, Code, InvalidArgument, Unavailable
from bridge.tfserving.ssl_config import ServerTls
from tests.access.callers import Watched
from tests.console.admin_server import AdminServer
from tests.support.certificates import Authority, Identity, subject


class Place(NamedTuple):
    """An admin port over HTTPS that asks for client certificates, and for tokens beside them."""

    server: AdminServer
    watched: Watched
    directory: Path
    authority: Authority

    def login(self, token: str = "", client: Identity | None = None) -> Login:
        return Login(
            token_file=self._file("token", f"{token}\n".encode()) if token else "",
            ca_file=self._file("ca.pem", self.authority.pem),
            cert_file=self._file("cert.pem", client.chain) if client else "",
            key_file=self._file("key.pem", client.key) if client else "",
        )

    def admin(self, login: Login) -> HttpAdmin:
        return HttpAdmin(f"https://localhost:{self.server.port}", login)

    def _file(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.write_bytes(content)
        return str(path)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    authority, watched = Authority(), Watched(port="admin")
    issued = authority.issue()
    tls = ServerTls(issued.key, issued.chain, authority.pem, True)
    server = AdminServer(tmp_path / "bridge.db", gate=watched.gate, tls=tls)
    server.add_model("half", 1)
    yield Place(server, watched, tmp_path, authority)
    server.close()


def test_a_token_beside_a_certificate(place: Place) -> None:
    client = place.authority.issue("ops", common_name="ops")
    [model] = place.admin(place.login("ops-token", client)).models()
    assert model["name"] == "half"
    with pytest.raises(BridgeError, match="does not have the scope read") as caught:
        place.admin(place.login("app-token", client)).models()
    assert caught.value.code is Code.PERMISSION_DENIED


def test_a_certificate_alone_is_the_actor(place: Place) -> None:
    client = place.authority.issue("ops", common_name="ops")
    name = subject(client)
    entry = f'{{"identities": [{{"subject": "{name}", "scopes": ["read", "manage"]}}]}}'
    place.watched.identities.entries = parse(entry.encode())
    assert place.admin(place.login(client=client)).set_label("half", "stable", 1, "because")
    [event] = place.server.registry.events(action="label set")
    assert (event.actor, event.source, event.reason) == (name, "admin", "because")


def test_strangers(place: Place) -> None:
    with pytest.raises(Unavailable):
        place.admin(place.login("ops-token")).models()
    with pytest.raises(Unavailable):
        place.admin(Login(token_file=place.login("ops-token").token_file)).models()


@pytest.mark.parametrize(
    ("login", "sentence"),
    [
        ({"token_file": "nowhere"}, "--admin_token_file=nowhere cannot be read: "),
        ({"token_file": "two words"}, "does not hold one token"),
        ({"ca_file": "nowhere"}, "--admin_ca_file=nowhere cannot be used: "),
        ({"cert_file": "nowhere"}, "--admin_cert_file and --admin_key_file are only of use together"),
        ({"cert_file": "nowhere", "key_file": "nowhere"}, "--admin_cert_file=nowhere cannot be used: "),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: dict[str, str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two words").write_text("two words")
    with pytest.raises(InvalidArgument) as caught:
        HttpAdmin("https://localhost:1", Login(**login))
    assert sentence in caught.value.message
