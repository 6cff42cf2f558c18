"""A gRPC port for inference by TF Serving's protocol and V2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from bridge.kserve import grpc_service
from bridge.kserve.grpc_service import GrpcInferenceService
from bridge.memory import MemoryTrimmer
from bridge.serving.addressing import TF_SERVING, Addressing
from bridge.serving.infer import InferenceCore
from bridge.telemetry.grpc_reflection import reflection_services
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving import model_service, prediction_service
from bridge.tfserving.model_service import FirstValue, ModelService, Reload
from bridge.tfserving.prediction_service import PredictionService
from bridge.tfserving.rpc import Rpc, Service, Services, answered
from bridge.transport.choice import AUTO, OpenServer, opener

Wrap = Callable[[Services], Services]
"""Puts something around RPCs: who may call them, who counts them."""


class GrpcServer:
    """Serves PredictionService and ModelService, the V2 protocol, `services`, and reflection.

    `addressing` says what names mean on this port. `management` replaces RPCs of ModelService. `wraps` are put around
    all RPCs, the last one outermost. Needs a running event loop.
    """

    def __init__(
        self,
        core: InferenceCore,
        *,
        reload: Reload | None = None,
        metric: FirstValue | None = None,
        management: Mapping[str, Rpc] = MappingProxyType({}),
        as_content: bool = False,
        addressing: Addressing = TF_SERVING,
        services: Services = MappingProxyType({}),
        wraps: Sequence[Wrap] = (),
        observe: RequestObserver = unobserved,
        open_server: OpenServer | None = None,
    ) -> None:
        self._memory = MemoryTrimmer()
        own = {
            prediction_service.SERVICE: PredictionService(core, as_content=as_content, addressing=addressing).rpcs(),
            model_service.SERVICE: {**ModelService(core.view, reload, metric).rpcs(), **management},
        }
        used = self._memory.used
        served: Services = {
            **{
                service: Service({name: answered(rpc, name, observe, used) for name, rpc in rpcs.items()})
                for service, rpcs in own.items()
            },
            grpc_service.SERVICE: GrpcInferenceService(core, addressing).service(observe, used),
            **services,
        }
        served = {**served, **reflection_services([*served])}
        for wrap in wraps:
            served = wrap(served)
        self._server = (open_server or opener(AUTO))(served)

    async def start(self, *addresses: str) -> int:
        """Serve on each of `addresses`: `host:port`, where port 0 takes a free one, or `unix:path`.

        The port of the first one. Raises GrpcBindError if one cannot be bound; a socket file that is there is replaced.
        """
        return await self._server.start(*addresses)

    async def stop(self, grace: float) -> None:
        """Take no new requests, let those in flight finish for `grace` seconds, then cancel them."""
        await self._server.stop(grace)
        self._memory.close()
