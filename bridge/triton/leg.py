"""The transport to one instance: HTTP for most calls, shared memory for large tensors, gRPC where HTTP does not do."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable

from bridge.errors import InvalidArgument
from bridge.serving.routes import InstanceRoute
from bridge.telemetry.observers import CallObserver, uncounted
from bridge.triton.calls import InferenceLeg, ModelCall, WireTensor
from bridge.triton.grpc_leg import GrpcLeg
from bridge.triton.http_leg import HttpLeg, parse_address
from bridge.triton.metered_leg import BoundedLeg, MeteredBoundedLeg, MeteredLeg
from bridge.triton.output_sizes import OutputSizes
from bridge.triton.outputs import byte_size
from bridge.triton.shared_memory_leg import SharedMemoryLeg
from bridge.triton.shared_memory_names import Owner
from bridge.triton.shared_memory_pool import RegionPool
from bridge.triton.shared_memory_region import Allowance, remove_left
from bridge.triton.shared_memory_registrar import Registrar
from bridge.triton.tls import TlsFiles

logger = logging.getLogger(__name__)

HTTP, GRPC, SHARED_MEMORY = "http", "grpc", "shared_memory"
"""The transports, as the metrics call them."""

HTTP_BODY_LIMIT = 64 * 1024 * 1024
"""What Triton's HTTP takes from 25.06 on unless --http-max-input-size says more."""

_HEAD_ROOM = 64 * 1024


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


class SharedMemory:
    """Large tensors travel in shared memory where a Triton maps it, too: from `threshold` bytes on.

    All legs together have `limit` bytes at a time. Raises OSError where the machine has no shared memory.
    """

    def __init__(self, threshold: int, limit: int) -> None:
        self.threshold = threshold
        self.allowance = Allowance(limit)
        self.owner = Owner.this()
        remove_left(self.owner)


def shared_memory(threshold: int, limit: int) -> SharedMemory | None:
    """None where a limit of 0 forbids it, or where the machine has none."""
    if not limit:
        return None
    try:
        return SharedMemory(threshold, limit)
    except OSError as error:
        logger.warning("Large tensors travel to Triton without shared memory: %s", error)
        return None


def open_leg(
    route: InstanceRoute,
    http_body_limit: int = HTTP_BODY_LIMIT,
    memory: SharedMemory | None = None,
    observer: Callable[[str], CallObserver] | None = None,
) -> InferenceLeg:
    """The leg to the instance that `route` describes. Needs the running event loop; connects with its first call.

    `observer` gives, for each transport by name, who is told of its calls. Raises InvalidArgument for an address or a
    TLS file that cannot be used.
    """
    tls = TlsFiles.from_mapping(route.tls)
    if not route.http and not route.grpc:
        raise InvalidArgument(f"Triton instance {route.name} has no address")
    observer = observer or _nobody
    grpc = MeteredLeg(GrpcLeg(route.grpc, tls, route.headers), observer(GRPC)) if route.grpc else None
    if not route.http:
        assert grpc is not None
        return grpc
    sizes = OutputSizes(memory.threshold) if memory is not None else None
    http = HttpLeg(parse_address(route.http, tls), route.headers, sizes=sizes)
    lean = MeteredBoundedLeg(http, observer(HTTP))
    leg = lean if grpc is None else ChoosingLeg(lean, grpc, http_body_limit)
    if memory is None or sizes is None:
        return leg
    registrar = Registrar(http.pool, http.address, route.headers)
    pool = RegionPool(registrar, memory.owner, memory.allowance, label=f"Triton {route.name}")
    return SharedMemoryLeg(pool, http, leg, route.headers, sizes, observer(SHARED_MEMORY))


def _nobody(leg: str) -> CallObserver:
    return uncounted
