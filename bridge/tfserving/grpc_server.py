"""The gRPC port of TF Serving clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grpc

from bridge.errors import Unavailable
from bridge.serving.infer import InferenceCore
from bridge.tfserving import model_service, prediction_service
from bridge.tfserving.model_service import ModelService, Reload
from bridge.tfserving.prediction_service import PredictionService
from bridge.tfserving.rpc import Rpc, unary

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.so_reuseport", 0),
)
"""Messages of any size; a second server on the port is an error, not a silent share of the load."""


class GrpcServer:
    """Serves PredictionService and ModelService, and what `handlers` add (health, reflection).

    `credentials` make the port TLS. Needs a running event loop.
    """

    def __init__(
        self,
        core: InferenceCore,
        *,
        reload: Reload | None = None,
        as_content: bool = False,
        credentials: grpc.ServerCredentials | None = None,
        handlers: Sequence[grpc.GenericRpcHandler] = (),
    ) -> None:
        self._credentials = credentials
        self._server = grpc.aio.server(options=_OPTIONS)
        services = {
            prediction_service.SERVICE: PredictionService(core, as_content=as_content).rpcs(),
            model_service.SERVICE: ModelService(core.view, reload).rpcs(),
        }
        self._server.add_generic_rpc_handlers([*(_handler(*service) for service in services.items()), *handlers])

    async def start(self, address: str) -> int:
        """Serve on `address` (`host:port`; port 0 takes a free one). The port. Raises Unavailable if it is taken."""
        try:
            port = self._bind(address)
        except RuntimeError as error:
            raise Unavailable(f"The gRPC address {address} cannot be bound; is it in use?") from error
        await self._server.start()
        return port

    async def stop(self, grace: float) -> None:
        """Take no new requests, let those in flight finish for `grace` seconds, then cancel them."""
        await self._server.stop(grace)

    def _bind(self, address: str) -> int:
        if self._credentials is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._credentials)


def _handler(service: str, rpcs: Mapping[str, Rpc]) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(service, {name: unary(rpc) for name, rpc in rpcs.items()})
