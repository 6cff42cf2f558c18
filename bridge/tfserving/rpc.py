"""From a function on messages to a gRPC handler: errors become statuses as TF Serving shows them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import grpc

from bridge.access.identity import Credentials, Identity
from bridge.errors import BridgeError, Code
from bridge.telemetry.observers import RequestObserver, unobserved

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls and how long they wait: `timeout` is the client's remaining time in seconds, None without a deadline.

    `peer` is gRPC's name of the other end; `entries` are all of the call's metadata in their order, `metadata` holds
    the text entries by lower-case key, the last of each. `subject` is that of the client certificate which TLS
    verified, empty without one; `identity` is who that is, once a gate has looked.
    """

    timeout: float | None = None
    peer: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    entries: Sequence[tuple[str, str | bytes]] = ()
    subject: str = ""
    identity: Identity | None = None

    @property
    def credentials(self) -> Credentials:
        """What the caller shows of who they are."""
        return Credentials(self.metadata.get("authorization", ""), self.subject, self.peer)


Rpc = Callable[[bytes, Caller], Awaitable[bytes]]
"""A unary RPC on serialized messages."""

MESSAGE_LIMIT = 1024
"""Bytes of a status message that TF Serving sends."""
TRUNCATED = "...TRUNCATED"

_STATUS_CODES = {Code(status.value[0]): status for status in grpc.StatusCode}
_NO_DEADLINE = 1e9
"""Seconds; gRPC shows a call without deadline as one of some hundred years."""


def _unmeasured(size: int) -> None:
    """Nobody asks."""


def unary(
    rpc: Rpc, name: str = "", observe: RequestObserver = unobserved, used: Callable[[int], None] = _unmeasured
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """The handler of `rpc`. A BridgeError becomes its code and message; anything else is logged and INTERNAL.

    `observe` is told of each request under `name`; one that the client gave up is CANCELLED. `used` is told the bytes
    of each message.
    """

    async def handle(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        started, code = perf_counter(), Code.CANCELLED
        try:
            response = await rpc(request, caller_of(context))
            code = Code.OK
            used(len(response))
            return response
        except BridgeError as error:
            code = error.code
            await context.abort(_STATUS_CODES[error.code], status_message(error.message))
        except Exception:
            code = Code.INTERNAL
            logger.exception("An RPC failed by a fault of the bridge")
            await context.abort(grpc.StatusCode.INTERNAL, "Internal error of the bridge; its log says more.")
        finally:
            observe(name, code, perf_counter() - started)
            used(len(request))

    return grpc.unary_unary_rpc_method_handler(handle)


class UnknownMethods(grpc.GenericRpcHandler):
    """Answers whatever no other handler knows as a C++ server does: UNIMPLEMENTED without a text."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.stream_stream_rpc_method_handler(_refuse)


async def _refuse(requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "")


def caller_of(context: grpc.aio.ServicerContext[bytes, bytes]) -> Caller:
    """Who calls."""
    entries = context.invocation_metadata() or ()
    metadata = {key: value for key, value in entries if isinstance(value, str)}
    return Caller(time_remaining(context), context.peer(), metadata, tuple(entries))


def time_remaining(context: grpc.aio.ServicerContext[bytes, bytes]) -> float | None:
    """Seconds until the client's deadline, None without one."""
    remaining = context.time_remaining()
    return None if remaining is None or remaining > _NO_DEADLINE else remaining


def status_message(message: str) -> str:
    """`message` cut to the length that TF Serving sends, between two characters; bytes that are no text become `?`."""
    data = message.encode(errors="replace")
    if len(data) <= MESSAGE_LIMIT:
        return data.decode()
    return data[:MESSAGE_LIMIT].decode(errors="ignore") + TRUNCATED
