from __future__ import annotations

import pytest

from bridge.access.identity import Scope
from bridge.access.requirements import parse
from bridge.errors import InvalidArgument

EVERY = frozenset(Scope)
NONE: frozenset[Scope] = frozenset()
MANAGE = frozenset({Scope.MANAGE})


@pytest.mark.parametrize(
    ("text", "grpc", "rest", "modelmesh"),
    [
        ("", NONE, NONE, NONE),
        ("all", EVERY, EVERY, EVERY),
        ("grpc", EVERY, NONE, NONE),
        ("rest, modelmesh", NONE, EVERY, EVERY),
        ("all:manage", MANAGE, MANAGE, MANAGE),
        ("grpc:manage,grpc:read", MANAGE | {Scope.READ}, NONE, NONE),
        ("all:manage,rest", MANAGE, EVERY, MANAGE),
    ],
)
def test_scopes_by_port(text: str, grpc: frozenset[Scope], rest: frozenset[Scope], modelmesh: frozenset[Scope]) -> None:
    assert parse(text) == {"grpc": grpc, "rest": rest, "modelmesh": modelmesh}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("http", "--require_access=http: 'http' is none of grpc, rest, modelmesh and all"),
        ("grpc:write", "--require_access=grpc:write: 'write' is none of the scopes inference, read, manage"),
        ("grpc:", "--require_access=grpc:: '' is none of the scopes inference, read, manage"),
        ("admin", "--require_access=admin: 'admin' is none of grpc, rest, modelmesh and all"),
    ],
)
def test_what_there_is_not(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    assert caught.value.message == sentence
