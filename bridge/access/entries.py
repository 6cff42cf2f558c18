"""The file that says who may do what: bearer tokens and subjects of client certificates with their scopes."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bridge.access.identity import Identity, Kind, Scope
from bridge.errors import InvalidArgument

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What RFC 6750 lets a bearer token be."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEYS = frozenset({"name", "token", "token_sha256", "subject", "scopes", "expires"})
_PROOFS = ("token", "token_sha256", "subject")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the file; `expires` is in microseconds UTC, None for never; `digest` is a token's."""

    identity: Identity
    expires: int | None = None
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Entries:
    """What the file says: tokens by their SHA-256, and subjects. `plain` tells whether it holds tokens themselves."""

    tokens: Mapping[bytes, Entry] = field(default_factory=dict)
    subjects: Mapping[str, Entry] = field(default_factory=dict)
    plain: bool = False


def digest(token: str) -> bytes:
    """By what a token is known."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def parse(data: bytes) -> Entries:
    """Read the file's JSON. Raises InvalidArgument with one sentence, which never holds a token."""
    items = _items(data)
    tokens: dict[bytes, Entry] = {}
    subjects: dict[str, Entry] = {}
    for number, item in enumerate(items, start=1):
        entry, subject = _entry(item, f"identity {number}")
        if subject in subjects or entry.digest in tokens:
            raise InvalidArgument(
                f"identity {number} ('{entry.identity.name}') has the {_proof(item)} of an earlier one"
            )
        if subject:
            subjects[subject] = entry
        else:
            tokens[entry.digest] = entry
    return Entries(tokens, subjects, any("token" in item for item in items))


def _items(data: bytes) -> list[Any]:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"it is not JSON: {error}") from error
    match document:
        case {"identities": list(items), **others} if not others:
            return items
    raise InvalidArgument('it is not of the form {"identities": [...]}')


def _entry(item: Any, where: str) -> tuple[Entry, str]:
    """An entry with its subject, which is empty for a token's."""
    if not isinstance(item, dict):
        raise InvalidArgument(f"{where} is not an object")
    unknown = sorted(set(item) - _KEYS)
    if unknown:
        raise InvalidArgument(f"{where} has the unknown key '{unknown[0]}'; it takes {', '.join(sorted(_KEYS))}")
    if sum(key in item for key in _PROOFS) != 1:
        raise InvalidArgument(f"{where} needs exactly one of token, token_sha256 and subject")
    subject = _text(item, "subject", where) if "subject" in item else ""
    if subject and "name" in item:
        raise InvalidArgument(f"{where} has a subject, which is its name, and another name")
    scopes, expires = _scopes(item, where), _expiry(item, where)
    if subject:
        return Entry(Identity(subject, Kind.CERTIFICATE, scopes), expires), subject
    return Entry(Identity(_text(item, "name", where), Kind.TOKEN, scopes), expires, _digest(item, where)), ""


def _proof(item: Any) -> str:
    return "subject" if "subject" in item else "token"


def _text(item: Mapping[str, Any], key: str, where: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"{where} has no {key}")
    return value


def _digest(item: Mapping[str, Any], where: str) -> bytes:
    if "token" in item:
        token = _text(item, "token", where)
        if not _TOKEN.fullmatch(token):
            raise InvalidArgument(f"{where} has a token with characters that no bearer token may have")
        return digest(token)
    text = _text(item, "token_sha256", where)
    if not _DIGEST.fullmatch(text):
        raise InvalidArgument(f"{where} has a token_sha256 that is not 64 lower-case hex digits")
    return bytes.fromhex(text)


def _scopes(item: Mapping[str, Any], where: str) -> frozenset[Scope]:
    names = item.get("scopes")
    if not isinstance(names, list) or not names:
        raise InvalidArgument(f"{where} has no list of scopes")
    for name in names:
        if name not in list(Scope):
            raise InvalidArgument(f"{where} has the unknown scope '{name}'; there are {', '.join(Scope)}")
    return frozenset(map(Scope, names))


def _expiry(item: Mapping[str, Any], where: str) -> int | None:
    if "expires" not in item:
        return None
    text = _text(item, "expires", where)
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise InvalidArgument(f"{where} expires at '{text}', which has no offset; write Z for UTC")
        moment = moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"{where} expires at '{text}', which is no ISO 8601 time") from error
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
