"""RPCs as functions on serialized messages, whatever serves them: `bridge.transport` has the servers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from types import MappingProxyType
from typing import NamedTuple

from bridge.access.certificates import subject
from bridge.access.identity import Credentials, Identity
from bridge.codec.long_message import Message
from bridge.errors import BridgeError, Code, Internal
from bridge.telemetry.observers import RequestObserver, unobserved

logger = logging.getLogger(__name__)


class Caller(NamedTuple):
    """Who calls and how long they wait: `timeout` is the client's remaining time in seconds, None without a deadline.

    `peer` is gRPC's name of the other end; `entries` are all of the call's metadata in their order, `metadata` holds
    the text entries by lower-case key, the last of each. `certificate` is what the client proved to be by mutual TLS,
    as PEM, empty without that; `identity` is who that is, once a gate has looked.
    """

    timeout: float | None = None
    peer: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})
    entries: Sequence[tuple[str, str | bytes]] = ()
    certificate: bytes = b""
    identity: Identity | None = None

    @property
    def credentials(self) -> Credentials:
        """What the caller shows of who they are."""
        return Credentials(self.metadata.get("authorization", ""), subject(self.certificate), self.peer)


Rpc = Callable[[bytes, Caller], Awaitable[Message]]
"""A unary RPC on serialized messages. Raises BridgeError."""
StreamRpc = Callable[[AsyncIterator[bytes], Caller], AsyncIterator[bytes]]
"""An RPC of several requests or several responses: an asynchronous generator. Raises BridgeError.

`Caller.timeout` is the time that was left when the call began.
"""


@dataclass(frozen=True, slots=True)
class Service:
    """The RPCs of one service by the names of their methods."""

    unary: Mapping[str, Rpc] = field(default_factory=dict)
    streams: Mapping[str, StreamRpc] = field(default_factory=dict)


Services = Mapping[str, Service]
"""Services by their full names."""

MESSAGE_LIMIT = 1024
"""Bytes of a status message that TF Serving sends."""
TRUNCATED = "...TRUNCATED"
FAULT = "Internal error of the bridge; its log says more."


def unmeasured(size: int) -> None:
    """Nobody asks."""


def answered(
    rpc: Rpc, name: str = "", observe: RequestObserver = unobserved, used: Callable[[int], None] = unmeasured
) -> Rpc:
    """`rpc` with nothing but BridgeErrors: anything else is logged and becomes INTERNAL.

    `observe` is told of each request under `name`; one that the client gave up is CANCELLED. `used` is told the bytes
    of each message.
    """

    async def answer(request: bytes, caller: Caller) -> Message:
        started, code = perf_counter(), Code.CANCELLED
        try:
            response = await rpc(request, caller)
            code = Code.OK
            used(len(response))
            return response
        except BridgeError as error:
            code = error.code
            raise
        except Exception as error:
            code = Code.INTERNAL
            logger.exception("An RPC failed by a fault of the bridge")
            raise Internal(FAULT) from error
        finally:
            observe(name, code, perf_counter() - started)
            used(len(request))

    return answer


def status_message(message: str) -> str:
    """`message` cut to the length that TF Serving sends, between two characters; bytes that are no text become `?`."""
    data = message.encode(errors="replace")
    if len(data) <= MESSAGE_LIMIT:
        return data.decode()
    return data[:MESSAGE_LIMIT].decode(errors="ignore") + TRUNCATED
