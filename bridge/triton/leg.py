"""The transport to one instance: HTTP for most calls, gRPC where HTTP is closed or the body passes its limit."""

from __future__ import annotations

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


class SizedLeg:
    """Sends a call by `small` where its tensors leave room under `limit` bytes, else by `large`."""

    def __init__(self, small: InferenceLeg, large: InferenceLeg, limit: int) -> None:
        self._small = small
        self._large = large
        self._limit = limit - _HEAD_ROOM

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        return await self._leg(call).infer(call, timeout)

    async def close(self) -> None:
        await self._small.close()
        await self._large.close()

    def _leg(self, call: ModelCall) -> InferenceLeg:
        size = sum([byte_size(tensor.data) for tensor in call.inputs])
        return self._small if size <= self._limit else self._large


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
    return SizedLeg(http, GrpcLeg(route.grpc, tls, route.headers), http_body_limit) if route.grpc else http
