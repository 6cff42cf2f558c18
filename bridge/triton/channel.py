"""gRPC channels to Triton."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import grpc
import grpc.aio

from bridge.triton.tls import TlsFiles

RECONNECT_MS = 100
MAX_RECONNECT_MS = 1000


def channel_options(tls: TlsFiles | None) -> list[tuple[str, int | str]]:
    """No limit on messages, and a channel that notices within a second that its server is back.

    The least time for one attempt stays gRPC's own 20 s: a TLS handshake with a far server may need it.
    """
    options: list[tuple[str, int | str]] = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", MAX_RECONNECT_MS),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
    ]
    if tls is not None and tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return options


def open_channel(address: str, tls: TlsFiles | None) -> grpc.aio.Channel:
    """A channel to `address` (`host:port`); it connects with its first call."""
    options = channel_options(tls)
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, tls.channel_credentials(), options=options)


def metadata(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """`headers` as gRPC metadata, whose keys are lower case."""
    return tuple((name.lower(), value) for name, value in headers.items())


def cancelled_by_caller() -> bool:
    """Whether a CancelledError is a cancellation of this task.

    A channel that is closed cancels its calls, which their callers see as the same exception.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
