"""A gate before RPCs, whatever serves them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from bridge.access import methods
from bridge.access.gate import Gate
from bridge.access.identity import Scope
from bridge.tfserving.rpc import Caller, Rpc, Service, Services, StreamRpc


def guarded(gate: Gate, services: Services) -> Services:
    """`services` behind `gate`. What needs nothing is left as it is; what changes something learns who calls also
    where no scope is asked for. What is denied reaches no RPC."""
    return {name: _service(gate, name, service) for name, service in services.items()}


def _service(gate: Gate, name: str, service: Service) -> Service:
    return Service(
        {method: _unary(gate, f"{name}/{method}", rpc) for method, rpc in service.unary.items()},
        {method: _stream(gate, f"{name}/{method}", rpc) for method, rpc in service.streams.items()},
    )


def _unary(gate: Gate, method: str, rpc: Rpc) -> Rpc:
    scope = methods.GRPC.get(method, methods.UNLISTED)
    if scope is Scope.MANAGE:
        return _identified(gate, method, rpc)
    if not gate.requires(scope):
        return rpc

    async def admitted(request: bytes, caller: Caller) -> bytes:
        gate.admit(method, scope, caller.credentials, caller.metadata)
        return await rpc(request, caller)

    return admitted


def _identified(gate: Gate, method: str, rpc: Rpc) -> Rpc:
    async def identified(request: bytes, caller: Caller) -> bytes:
        identity = gate.admit(method, Scope.MANAGE, caller.credentials, caller.metadata)
        return await rpc(request, replace(caller, identity=identity))

    return identified


def _stream(gate: Gate, method: str, rpc: StreamRpc) -> StreamRpc:
    """Looks at the beginning and at each request: a stream must not outlive its token."""
    scope = methods.GRPC.get(method, methods.UNLISTED)
    if not gate.requires(scope):
        return rpc

    async def admitted(requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        gate.admit(method, scope, caller.credentials, caller.metadata)
        async for response in rpc(_watched(requests, caller), caller):
            yield response

    async def _watched(requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        async for request in requests:
            gate.admit(method, scope, caller.credentials, caller.metadata)
            yield request

    return admitted
