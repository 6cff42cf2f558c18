"""Calls that one replica passes on to another, as bytes: a JSON head in one line, then the request as it came."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from bridge.access.identity import Identity, Kind, Scope
from bridge.errors import BridgeError, Code
from bridge.tfserving.rpc import Caller


def pack_rpc(service: str, method: str, request: bytes, caller: Caller) -> bytes:
    """An RPC with who called it; the time that is left travels as the deadline of the call itself."""
    identity = caller.identity
    head = {
        "service": service,
        "method": method,
        "peer": caller.peer,
        "entries": [_entry(name, value) for name, value in caller.entries],
        "certificate": _text(caller.certificate),
        "identity": None if identity is None else [identity.name, identity.kind, sorted(identity.scopes)],
    }
    return orjson.dumps(head) + b"\n" + request


def unpack_rpc(message: bytes, timeout: float | None) -> tuple[str, str, bytes, Caller]:
    """Service, method, request and caller, who has `timeout` seconds left."""
    head, _, request = message.partition(b"\n")
    value = orjson.loads(head)
    entries = [(name, base64.b64decode(data) if coded else data) for name, data, coded in value["entries"]]
    caller = Caller(
        timeout=timeout,
        peer=value["peer"],
        metadata={name: data for name, data in entries if isinstance(data, str)},
        entries=entries,
        certificate=base64.b64decode(value["certificate"]),
        identity=_identity(value["identity"]),
    )
    return value["service"], value["method"], request, caller


def pack_answer(answer: bytes) -> bytes:
    return b"+" + answer


def pack_error(error: BridgeError) -> bytes:
    """An error with its code and its whole sentence, which a gRPC status could not hold."""
    return b"-" + orjson.dumps([int(error.code), error.message])


def unpack_answer(message: bytes) -> bytes:
    """The answer. Raises the BridgeError that is in its place."""
    if message[:1] == b"-":
        code, sentence = orjson.loads(message[1:])
        raise BridgeError(sentence, Code(code))
    return message[1:]


def _entry(name: str, value: str | bytes) -> list[Any]:
    return [name, value, False] if isinstance(value, str) else [name, _text(value), True]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _identity(value: list[Any] | None) -> Identity | None:
    if value is None:
        return None
    name, kind, scopes = value
    return Identity(name, Kind(kind), frozenset(Scope(scope) for scope in scopes))
