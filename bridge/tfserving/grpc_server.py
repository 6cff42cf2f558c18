"""A gRPC port for inference by TF Serving's protocol and V2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import grpc

from bridge.errors import Unavailable
from bridge.kserve import grpc_service
from bridge.kserve.grpc_service import GrpcInferenceService
from bridge.memory import MemoryTrimmer
from bridge.serving.addressing import TF_SERVING, Addressing
from bridge.serving.infer import InferenceCore
from bridge.telemetry.grpc_reflection import reflection_handlers
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving import model_service, prediction_service
from bridge.tfserving.model_service import FirstValue, ModelService, Reload
from bridge.tfserving.prediction_service import PredictionService
from bridge.tfserving.rpc import Rpc, UnknownMethods, unary

ChannelArguments = Mapping[str, int | str]

_OPTIONS: ChannelArguments = {
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
    "grpc.so_reuseport": 0,
}
"""Messages of any size; a second server on the port is an error, not a silent share of the load."""


class GrpcBindError(Unavailable):
    """An address of the gRPC server cannot be bound."""


class GrpcServer:
    """Serves PredictionService and ModelService, the V2 protocol, what `handlers` add by service name, and reflection.

    `addressing` says what names mean on this port. `credentials` make every address TLS, `arguments` are gRPC channel
    arguments. Needs a running event loop.
    """

    def __init__(
        self,
        core: InferenceCore,
        *,
        reload: Reload | None = None,
        metric: FirstValue | None = None,
        as_content: bool = False,
        addressing: Addressing = TF_SERVING,
        credentials: grpc.ServerCredentials | None = None,
        handlers: Mapping[str, grpc.GenericRpcHandler] = MappingProxyType({}),
        arguments: ChannelArguments = MappingProxyType({}),
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        observe: RequestObserver = unobserved,
    ) -> None:
        self._credentials = credentials
        self._memory = MemoryTrimmer()
        self._server = grpc.aio.server(
            options=tuple({**_OPTIONS, **arguments}.items()), interceptors=tuple(interceptors)
        )
        services = {
            prediction_service.SERVICE: PredictionService(core, as_content=as_content, addressing=addressing).rpcs(),
            model_service.SERVICE: ModelService(core.view, reload, metric).rpcs(),
        }
        own = {service: _handler(service, rpcs, observe, self._memory.used) for service, rpcs in services.items()}
        v2 = GrpcInferenceService(core, addressing).handler(observe, self._memory.used)
        served = {**own, grpc_service.SERVICE: v2, **handlers}
        reflection = reflection_handlers([*served])
        self._server.add_generic_rpc_handlers([*served.values(), *reflection, UnknownMethods()])

    async def start(self, *addresses: str) -> int:
        """Serve on each of `addresses`: `host:port`, where port 0 takes a free one, or `unix:path`.

        The port of the first one. Raises GrpcBindError if one cannot be bound; a socket file that is there is replaced.
        """
        ports = [self._bind(address) for address in addresses]
        await self._server.start()
        return ports[0]

    async def stop(self, grace: float) -> None:
        """Take no new requests, let those in flight finish for `grace` seconds, then cancel them."""
        await self._server.stop(grace)
        self._memory.close()

    def _bind(self, address: str) -> int:
        try:
            if self._credentials is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise GrpcBindError(f"The gRPC address {address} cannot be bound; is it in use?") from error


def _handler(
    service: str, rpcs: Mapping[str, Rpc], observe: RequestObserver, used: Callable[[int], None]
) -> grpc.GenericRpcHandler:
    handlers = {name: unary(rpc, name, observe, used) for name, rpc in rpcs.items()}
    return grpc.method_handlers_generic_handler(service, handlers)
