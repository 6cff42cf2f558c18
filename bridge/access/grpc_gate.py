"""A gate before RPCs, whatever serves them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bridge.access import methods
from bridge.access.gate import Gate
from bridge.access.identity import Identity, Scope
from bridge.codec.long_message import Message
from bridge.errors import BridgeError
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving.rpc import Caller, Rpc, Service, Services, StreamRpc


class RpcGate:
    """Puts `gate` before services.

    Denied calls reach no RPC and nothing around it; `observe` is told of each by its method's name.
    """

    def __init__(self, gate: Gate, observe: RequestObserver = unobserved) -> None:
        self._gate = gate
        self._observe = observe

    def before(self, services: Services) -> Services:
        """`services` behind the gate. An RPC that needs nothing is left as it is; one that changes something learns
        who calls also where the gate asks for nothing."""
        return {name: self._service(name, service) for name, service in services.items()}

    def _service(self, name: str, service: Service) -> Service:
        return Service(
            {method: self._unary(name, method, rpc) for method, rpc in service.unary.items()},
            {method: self._stream(name, method, rpc) for method, rpc in service.streams.items()},
        )

    def _unary(self, service: str, name: str, rpc: Rpc) -> Rpc:
        method = f"{service}/{name}"
        scope = methods.GRPC.get(method, methods.UNLISTED)
        if scope is not Scope.MANAGE and not self._gate.requires(scope):
            return rpc

        async def admitted(request: bytes, caller: Caller) -> Message:
            self._admit(method, scope, caller)
            return await rpc(request, caller)

        async def identified(request: bytes, caller: Caller) -> Message:
            return await rpc(request, caller._replace(identity=self._admit(method, scope, caller)))

        return identified if scope is Scope.MANAGE else admitted

    def _stream(self, service: str, name: str, rpc: StreamRpc) -> StreamRpc:
        """Looks at the beginning and at each request: a stream must not outlive its token."""
        method = f"{service}/{name}"
        scope = methods.GRPC.get(method, methods.UNLISTED)
        if not self._gate.requires(scope):
            return rpc

        async def admitted(requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
            self._admit(method, scope, caller)
            async for response in rpc(watched(requests, caller), caller):
                yield response

        async def watched(requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
            async for request in requests:
                self._admit(method, scope, caller)
                yield request

        return admitted

    def _admit(self, method: str, scope: Scope | None, caller: Caller) -> Identity:
        try:
            return self._gate.admit(method, scope, caller.credentials, caller.metadata)
        except BridgeError as error:
            self._observe(method.rpartition("/")[2], error.code, 0.0)
            raise
