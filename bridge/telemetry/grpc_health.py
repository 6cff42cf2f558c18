"""grpc.health.v1.Health: whether this server takes requests, whatever single models or Tritons do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

from grpc_health.v1.health_pb2 import DESCRIPTOR, HealthCheckRequest, HealthCheckResponse

from bridge.errors import NotFound
from bridge.tfserving.messages import parse
from bridge.tfserving.rpc import Caller, Service

SERVICE: str = DESCRIPTOR.services_by_name["Health"].full_name

_SERVING, _NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


class HealthService:
    """SERVING for each of `names` until `shut_down`, NOT_SERVING from then on.

    The servicer of grpcio-health-checking keeps its watchers until they hang up, so a single one would hold a server
    that drains for its whole grace period.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._down = asyncio.Event()

    def service(self) -> Service:
        """The service, to be added to a server under the name `SERVICE`."""
        return Service({"Check": self._check}, {"Watch": self._watch})

    def shut_down(self) -> None:
        """Tell everybody NOT_SERVING and end the watches."""
        self._down.set()

    async def _check(self, request: bytes, caller: Caller) -> bytes:
        if _asked(request) not in self._names:
            raise NotFound("service name unknown")
        return self._response()

    async def _watch(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        if _asked(await anext(requests, b"")) not in self._names:
            yield _data(HealthCheckResponse.SERVICE_UNKNOWN)
            await self._down.wait()
            return
        if not self._down.is_set():
            yield self._response()
        await self._down.wait()
        yield self._response()

    def _response(self) -> bytes:
        return _data(_NOT_SERVING if self._down.is_set() else _SERVING)


def _asked(request: bytes) -> str:
    """The service that a HealthCheckRequest names. Raises MalformedRequest."""
    return parse(HealthCheckRequest, request).service


def _data(status: int) -> bytes:
    return HealthCheckResponse(status=status).SerializeToString()
