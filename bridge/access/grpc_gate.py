"""A gate before RPCs, whatever serves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bridge.access import methods
from bridge.access.gate import Gate
from bridge.access.identity import Scope
from bridge.tfserving.rpc import Caller, Rpc


def guarded(gate: Gate, service: str, rpcs: Mapping[str, Rpc]) -> Mapping[str, Rpc]:
    """`rpcs` of `service` behind `gate`. Those that need nothing are left as they are; those that change something
    learn who calls also where that is not asked for."""
    return {name: _guarded(gate, f"{service}/{name}", rpc) for name, rpc in rpcs.items()}


def needed(gate: Gate, method: str) -> Scope | None:
    """The scope that `gate` asks for `method`, None for a call that passes."""
    scope = methods.GRPC.get(method, methods.UNLISTED)
    return scope if gate.requires(scope) else None


def _guarded(gate: Gate, method: str, rpc: Rpc) -> Rpc:
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
