"""Calls that one replica passes on to another, as bytes: a JSON head in one line, then the request as it came."""

from __future__ import annotations

import orjson

from bridge.access.plain import caller_of_plain, plain_caller
from bridge.errors import BridgeError, Code
from bridge.tfserving.rpc import Caller


def pack_rpc(service: str, method: str, request: bytes, caller: Caller) -> bytes:
    """An RPC with who called it; the time that is left travels as the deadline of the call itself."""
    head = {"service": service, "method": method, "caller": plain_caller(caller)}
    return orjson.dumps(head) + b"\n" + request


def unpack_rpc(message: bytes, timeout: float | None) -> tuple[str, str, bytes, Caller]:
    """Service, method, request and caller, who has `timeout` seconds left."""
    head, _, request = message.partition(b"\n")
    value = orjson.loads(head)
    caller = caller_of_plain(value["caller"])._replace(timeout=timeout)
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
