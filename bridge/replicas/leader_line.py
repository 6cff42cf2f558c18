"""A replica's way to the leader: one RPC that carries RPCs, and one that carries requests to the admin port."""

from __future__ import annotations

import logging

import grpc

from bridge.errors import BridgeError, Code, DeadlineExceeded, Unavailable
from bridge.replicas import envelope
from bridge.replicas.proof import Proof

logger = logging.getLogger(__name__)

SERVICE = "triton_bridge.Replicas"
RPC, ADMIN, PING = "Rpc", "Admin", "Ping"
SIGNATURE = "x-bridge-signature"

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


class LeaderLine:
    """Calls whichever replica leads. Used on one event loop."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self._address = ""
        self._channel: grpc.aio.Channel | None = None

    async def call(self, address: str, method: str, message: bytes, timeout: float | None) -> bytes:
        """What the replica at `address` answers within `timeout` seconds. Raises BridgeError."""
        channel = await self._open(address)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/{method}")
        metadata = ((SIGNATURE, self._proof.sign(method, message)),)
        try:
            answer: bytes = await call(message, timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise _error(address, error) from error
        return envelope.unpack_answer(answer)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def _open(self, address: str) -> grpc.aio.Channel:
        if self._channel is None or address != self._address:
            previous, self._channel = self._channel, grpc.aio.insecure_channel(address, _OPTIONS)
            self._address = address
            if previous is not None:
                await previous.close()
        return self._channel


def _error(address: str, error: grpc.aio.AioRpcError) -> BridgeError:
    code = Code(error.code().value[0])
    if code is Code.DEADLINE_EXCEEDED:
        return DeadlineExceeded("the leader did not answer in time; whether the call was carried out is unknown")
    if code in (Code.UNAUTHENTICATED, Code.UNIMPLEMENTED):
        return BridgeError(f"the leader at {address} refuses this replica: {error.details()}", Code.INTERNAL)
    return Unavailable(
        f"The leader at {address} cannot be reached; whether the call was carried out is unknown: {error.details()}"
    )
