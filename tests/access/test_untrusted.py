"""Whatever a file or a caller holds: one of the errors that are meant, or nothing."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.access.entries import parse
from bridge.access.identities import Unauthenticated
from bridge.access.identity import Credentials, Kind, host
from bridge.errors import InvalidArgument
from tests.access.callers import Watched

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DOCUMENTS = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
KEYS = st.sampled_from(["name", "token", "token_sha256", "subject", "scopes", "expires", "other"])
VALUES = DOCUMENTS | st.sampled_from(
    [["read"], "a-token", "0" * 64, "2027-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"]
)
WATCHED = Watched()


@given(st.lists(st.dictionaries(KEYS, VALUES)))
def test_identities_of_any_form(identities: list[Any]) -> None:
    with contextlib.suppress(InvalidArgument):
        parse(json.dumps({"identities": identities}).encode())


@given(st.binary() | DOCUMENTS.map(lambda document: json.dumps(document).encode()))
def test_files_of_any_form(data: bytes) -> None:
    with contextlib.suppress(InvalidArgument):
        parse(data)


@given(st.text() | st.text().map(lambda text: f"Bearer {text}"), st.text(), st.text())
def test_credentials_of_any_form(authorization: str, subject: str, peer: str) -> None:
    credentials = Credentials(authorization, subject, peer)
    assert host(peer)
    with contextlib.suppress(Unauthenticated):
        found = WATCHED.identities.identify(credentials)
        assert not found.scopes
        assert (found.kind is Kind.CERTIFICATE) == bool(subject)
