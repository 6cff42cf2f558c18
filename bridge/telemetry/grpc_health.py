"""grpc.health.v1.Health: whether this server takes requests, whatever single models or Tritons do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

import grpc
from grpc_health.v1.health_pb2 import DESCRIPTOR, HealthCheckRequest, HealthCheckResponse

SERVICE: str = DESCRIPTOR.services_by_name["Health"].full_name

_SERVING, _NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING

Context = grpc.aio.ServicerContext[HealthCheckRequest, HealthCheckResponse]


class HealthService:
    """SERVING for each of `names` until `shut_down`, NOT_SERVING from then on.

    The servicer of grpcio-health-checking keeps its watchers until they hang up, so a single one would hold a server
    that drains for its whole grace period.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._down = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        """The service, to be added to a server."""
        read, write = HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
        check = grpc.unary_unary_rpc_method_handler(self._check, read, write)
        watch = grpc.unary_stream_rpc_method_handler(self._watch, read, write)
        return grpc.method_handlers_generic_handler(SERVICE, {"Check": check, "Watch": watch})

    def shut_down(self) -> None:
        """Tell everybody NOT_SERVING and end the watches."""
        self._down.set()

    async def _check(self, request: HealthCheckRequest, context: Context) -> HealthCheckResponse:
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "service name unknown")
        return self._response()

    async def _watch(self, request: HealthCheckRequest, context: Context) -> AsyncIterator[HealthCheckResponse]:
        if request.service not in self._names:
            yield HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
            await self._down.wait()
            return
        if not self._down.is_set():
            yield self._response()
        await self._down.wait()
        yield self._response()

    def _response(self) -> HealthCheckResponse:
        return HealthCheckResponse(status=_NOT_SERVING if self._down.is_set() else _SERVING)
