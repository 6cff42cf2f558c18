"""Who calls, by token and certificate."""

from __future__ import annotations

import pytest

from bridge.access.identities import Unauthenticated
from bridge.access.identity import Credentials, Identity, Kind, Scope
from tests.access.callers import SUBJECT, Watched, bearer

APP = Identity("app", Kind.TOKEN, frozenset({Scope.INFERENCE}))
TRAINER = Identity(SUBJECT, Kind.CERTIFICATE, frozenset({Scope.MANAGE}))
PEER = Identity("ipv4:10.0.0.1:4242", Kind.PEER)


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (bearer("app-token"), APP),
        (Credentials("bearer   app-token ", "", "p"), APP),
        (Credentials("", SUBJECT, "p"), TRAINER),
        (Credentials("", "CN=stranger", "p"), Identity("CN=stranger", Kind.CERTIFICATE)),
        (Credentials("", "", "ipv4:10.0.0.1:4242"), PEER),
        (
            bearer("app-token", SUBJECT),
            Identity(SUBJECT, Kind.CERTIFICATE, frozenset({Scope.INFERENCE, Scope.MANAGE})),
        ),
        (bearer("app-token", "CN=stranger"), Identity("CN=stranger", Kind.CERTIFICATE, frozenset({Scope.INFERENCE}))),
    ],
)
def test_identify(credentials: Credentials, expected: Identity) -> None:
    assert Watched().identities.identify(credentials) == expected


@pytest.mark.parametrize(
    ("credentials", "message", "name"),
    [
        (bearer("wrong"), "The bearer token is not one that this server knows.", PEER.name),
        (bearer("app-token2"), "The bearer token is not one that this server knows.", PEER.name),
        (bearer("é\udcff"), "The bearer token is not one that this server knows.", PEER.name),
        (bearer(""), "The authorization is not of the form 'Bearer TOKEN'.", PEER.name),
        (Credentials("Basic YTpi", SUBJECT, "p"), "The authorization is not of the form 'Bearer TOKEN'.", SUBJECT),
        (bearer("old-token"), "The token of 'old' expired at 2023-11-14T22:14:00Z.", "old"),
        (Credentials("", "CN=old", "p"), "The certificate of 'CN=old' expired at 2023-01-01T00:00:00Z.", "CN=old"),
    ],
)
def test_what_proves_nothing(credentials: Credentials, message: str, name: str) -> None:
    identities = Watched().identities
    with pytest.raises(Unauthenticated) as caught:
        identities.identify(credentials)
    assert (caught.value.message, caught.value.identity.name) == (message, name)
    assert not caught.value.identity.scopes
    assert identities.recognise(credentials) == credentials.unproven()


def test_a_token_expires_while_the_server_runs() -> None:
    watched = Watched()
    assert watched.identities.identify(bearer("soon-token")).name == "soon"
    watched.clock.tick(1)
    with pytest.raises(Unauthenticated, match="The token of 'soon' expired at 2023-11-14T22:14:01Z"):
        watched.identities.identify(bearer("soon-token"))
