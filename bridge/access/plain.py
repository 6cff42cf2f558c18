"""Callers and denied calls as JSON, for another process."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from bridge.access.denial import Denial
from bridge.access.identity import Identity, Kind, Scope
from bridge.errors import Code
from bridge.tfserving.rpc import Caller


def base64_text(data: bytes) -> str:
    return b64encode(data).decode()


def plain_caller(caller: Caller) -> dict[str, Any]:
    """All of `caller`; what remains of its deadline is that of this moment."""
    return {
        "timeout": caller.timeout,
        "peer": caller.peer,
        "entries": [_plain_entry(key, value) for key, value in caller.entries],
        "certificate": base64_text(caller.certificate),
        "identity": None if caller.identity is None else _plain_identity(caller.identity),
    }


def caller_of_plain(plain: dict[str, Any]) -> Caller:
    """The inverse of `plain_caller`."""
    entries = [(key, value if is_text else b64decode(value)) for key, value, is_text in plain["entries"]]
    return Caller(
        timeout=plain["timeout"],
        peer=plain["peer"],
        metadata={key: value for key, value in entries if isinstance(value, str)},
        entries=entries,
        certificate=b64decode(plain["certificate"]),
        identity=None if plain["identity"] is None else _identity(*plain["identity"]),
    )


def plain_denial(denial: Denial) -> dict[str, Any]:
    return {
        "port": denial.port,
        "source": denial.source,
        "method": denial.method,
        "scope": denial.scope,
        "code": int(denial.code),
        "message": denial.message,
        "identity": _plain_identity(denial.identity),
        "peer": denial.peer,
        "metadata": dict(denial.metadata),
    }


def denial_of_plain(plain: dict[str, Any]) -> Denial:
    """The inverse of `plain_denial`."""
    scope, code, identity = Scope(plain["scope"]), Code(plain["code"]), _identity(*plain["identity"])
    return Denial(**{**plain, "scope": scope, "code": code, "identity": identity})


def _plain_entry(key: str, value: str | bytes) -> list[Any]:
    return [key, value, True] if isinstance(value, str) else [key, base64_text(value), False]


def _plain_identity(identity: Identity) -> list[Any]:
    return [identity.name, identity.kind, sorted(identity.scopes)]


def _identity(name: str, kind: str, scopes: list[str]) -> Identity:
    return Identity(name, Kind(kind), frozenset(map(Scope, scopes)))
