"""DNS rebinding: a name of somebody else's that resolves to this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.addresses import is_loopback
from bridge.console.hosts import is_local
from tests.console.admin_server import AdminServer


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1:8502", True),
        ("127.0.0.1", True),
        ("10.0.0.7:8502", True),
        ("[::1]:8502", True),
        ("[::1]", True),
        ("localhost:8502", True),
        ("LOCALHOST", True),
        ("evil.example:8502", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("[evil]", False),
        ("[", False),
        ("", False),
    ],
)
def test_hosts(host: str, local: bool) -> None:
    assert is_local(host) is local


@pytest.mark.parametrize(
    ("address", "loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_addresses(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


def test_a_loopback_port_refuses_foreign_names(server: AdminServer) -> None:
    reply = server.ask("GET", "/api/v1/models", headers={"host": "evil.example"})
    assert (reply.status, reply.json["code"]) == (403, "PERMISSION_DENIED")
    assert "'evil.example'" in reply.json["error"]


def test_a_public_port_does_not(tmp_path: Path) -> None:
    server = AdminServer(tmp_path / "bridge.db", local_only=False)
    try:
        assert server.ask("GET", "/api/v1/models", headers={"host": "bridge.example"}).status == 200
    finally:
        server.close()
