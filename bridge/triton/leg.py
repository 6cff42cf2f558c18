"""The transport to one instance: HTTP for most calls, gRPC where HTTP is closed, full or too small for the body."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from bridge.errors import InvalidArgument
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import InferenceLeg, ModelCall, WireTensor
from bridge.triton.grpc_leg import GrpcLeg
from bridge.triton.http_leg import HttpLeg, parse_address
from bridge.triton.outputs import byte_size
from bridge.triton.tls import TlsFiles

HTTP_BODY_LIMIT = 64 * 1024 * 1024
"""What Triton's HTTP takes from 25.06 on unless --http-max-input-size says more."""

_HEAD_ROOM = 64 * 1024


class BoundedLeg(InferenceLeg, Protocol):
    """A leg that carries so many calls at a time."""

    @property
    def full(self) -> bool: ...


class ChoosingLeg:
    """Sends a call by `lean` where its tensors leave room under `limit` bytes and it would not have to wait there.

    Everything else goes by `roomy`, so that calls which a slow model holds up never keep those of others waiting.
    """

    def __init__(self, lean: BoundedLeg, roomy: InferenceLeg, limit: int) -> None:
        self._lean = lean
        self._roomy = roomy
        self._limit = limit - _HEAD_ROOM

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        return await self._leg(call).infer(call, timeout)

    async def forward(self, method: str, request: bytes, timeout: float) -> bytes:
        return await self._roomy.forward(method, request, timeout)

    def stream(self, request: bytes, timeout: float) -> AsyncIterator[bytes]:
        return self._roomy.stream(request, timeout)

    async def close(self) -> None:
        await self._lean.close()
        await self._roomy.close()

    def _leg(self, call: ModelCall) -> InferenceLeg:
        size = 0
        for tensor in call.inputs:
            size += byte_size(tensor.data)
        return self._lean if size <= self._limit and not self._lean.full else self._roomy


def open_leg(route: InstanceRoute, http_body_limit: int = HTTP_BODY_LIMIT) -> InferenceLeg:
    """The leg to the instance that `route` describes. Needs the running event loop; connects with its first call.

    Raises InvalidArgument for an address or a TLS file that cannot be used.
    """
    tls = TlsFiles.from_mapping(route.tls)
    if not route.http and not route.grpc:
        raise InvalidArgument(f"Triton instance {route.name} has no address")
    if not route.http:
        return GrpcLeg(route.grpc, tls, route.headers)
    http = HttpLeg(parse_address(route.http, tls), route.headers)
    return ChoosingLeg(http, GrpcLeg(route.grpc, tls, route.headers), http_body_limit) if route.grpc else http
