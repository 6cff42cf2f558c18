from __future__ import annotations

import pytest

from bridge.access.identity import Credentials, Identity, Kind, host


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:10.0.0.1:4242", "10.0.0.1"),
        ("ipv6:[::1]:4242", "::1"),
        ("ipv6:%5B2001:db8::7%5D:4242", "2001:db8::7"),
        ("10.0.0.1:4242", "10.0.0.1"),
        ("[::1]:4242", "::1"),
        ("::1", "::1"),
        ("unix:", "unix:"),
        ("unix:/run/bridge.sock", "unix:/run/bridge.sock"),
        ("", "unknown"),
    ],
)
def test_a_peer_without_its_port(peer: str, expected: str) -> None:
    assert host(peer) == expected


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (Credentials("Bearer x", "CN=a", "ipv4:10.0.0.1:1"), Identity("CN=a", Kind.CERTIFICATE)),
        (Credentials("Bearer x", "", "ipv4:10.0.0.1:1"), Identity("ipv4:10.0.0.1:1", Kind.PEER)),
        (Credentials(), Identity("unknown", Kind.PEER)),
    ],
)
def test_who_calls_without_a_token(credentials: Credentials, expected: Identity) -> None:
    assert credentials.unproven() == expected
