"""What every gRPC server here does, whatever carries its HTTP/2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bridge.errors import Unavailable

ChannelArguments = Mapping[str, int | str]
"""gRPC's channel arguments by their names, such as grpc.max_receive_message_length."""


class GrpcBindError(Unavailable):
    """An address of the gRPC server cannot be bound."""

    def __init__(self, address: str) -> None:
        super().__init__(f"The gRPC address {address} cannot be bound; is it in use?")


class RpcServer(Protocol):
    """Serves RPCs on one event loop. What it does not know is UNIMPLEMENTED without a text, as with a C++ server.

    A BridgeError of an RPC becomes its code and message, cut to the length that TF Serving sends. A client that hangs
    up, or whose deadline passes, cancels the RPC.
    """

    async def start(self, *addresses: str) -> int:
        """Serve on each of `addresses`: `host:port`, where port 0 takes a free one, or `unix:path`.

        The port of the first one. Raises GrpcBindError if one cannot be bound; a socket file that is there is replaced.
        """

    async def stop(self, grace: float) -> None:
        """Take no new requests, let those in flight finish for `grace` seconds, then cancel them."""
