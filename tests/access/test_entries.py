"""The file of the identities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.access.entries import Entry, digest, parse
from bridge.access.identity import Identity, Kind, Scope
from bridge.errors import InvalidArgument

OPS = {"name": "ops", "token": "secret-token", "scopes": ["read", "manage"]}


def file(*identities: Any) -> bytes:
    return json.dumps({"identities": identities}).encode()


def test_tokens_by_text_or_digest_and_subjects() -> None:
    found = parse(
        file(
            OPS,
            {"name": "app", "token_sha256": digest("other").hex(), "scopes": ["inference"]},
            {"subject": "CN=trainer,O=Example", "scopes": ["manage"], "expires": "2027-01-01T01:00:00+01:00"},
        )
    )
    ops = Identity("ops", Kind.TOKEN, frozenset({Scope.READ, Scope.MANAGE}))
    app = Identity("app", Kind.TOKEN, frozenset({Scope.INFERENCE}))
    assert found.plain
    assert found.tokens == {
        digest("secret-token"): Entry(ops, None, digest("secret-token")),
        digest("other"): Entry(app, None, digest("other")),
    }
    expires = 1798761600 * 1_000_000
    trainer = Entry(Identity("CN=trainer,O=Example", Kind.CERTIFICATE, frozenset({Scope.MANAGE})), expires)
    assert found.subjects == {"CN=trainer,O=Example": trainer}


def test_two_tokens_of_one_name_let_it_change_them() -> None:
    assert len(parse(file(OPS, {**OPS, "token": "next-token"})).tokens) == 2


def test_a_file_of_digests_holds_no_token() -> None:
    assert not parse(file({"name": "app", "token_sha256": "0" * 64, "scopes": ["read"]})).plain


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[]", "it is not of the form"),
        (b'{"identities": [], "more": 1}', "it is not of the form"),
        (file("ops"), "identity 1 is not an object"),
        (file({**OPS, "scope": []}), "identity 1 has the unknown key 'scope'"),
        (file({"name": "ops", "scopes": ["read"]}), "identity 1 needs exactly one of"),
        (file({**OPS, "token_sha256": "0" * 64}), "identity 1 needs exactly one of"),
        (file({"token": "t", "scopes": ["read"]}), "identity 1 has no name"),
        (file({**OPS, "name": " "}), "identity 1 has no name"),
        (file({**OPS, "token": "two words"}), "identity 1 has a token with characters"),
        (file({**OPS, "token": 7}), "identity 1 has no token"),
        (file({"name": "a", "token_sha256": "AB", "scopes": ["read"]}), "that is not 64 lower-case hex digits"),
        (file({**OPS, "scopes": []}), "identity 1 has no list of scopes"),
        (file({**OPS, "scopes": "read"}), "identity 1 has no list of scopes"),
        (file({**OPS, "scopes": ["admin"]}), "identity 1 has the unknown scope 'admin'"),
        (file({**OPS, "scopes": [["read"]]}), "identity 1 has the unknown scope"),
        (file({**OPS, "expires": "tomorrow"}), "which is no ISO 8601 time"),
        (file({**OPS, "expires": "0001-01-01T00:00:00+14:00"}), "which is no ISO 8601 time"),
        (file({**OPS, "expires": "2027-01-01T00:00:00"}), "which has no offset"),
        (file({"subject": "CN=a", "name": "b", "scopes": ["read"]}), "has a subject, which is its name"),
        (file(OPS, {**OPS, "name": "other"}), "identity 2 ('other') has the token of an earlier one"),
        (file(*[{"subject": "CN=a", "scopes": ["read"]}] * 2), "identity 2 ('CN=a') has the subject of an earlier one"),
    ],
)
def test_a_bad_file_is_one_sentence_without_a_token(data: bytes, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(data)
    assert sentence in caught.value.message
    assert "secret-token" not in caught.value.message
    assert "two words" not in caught.value.message
