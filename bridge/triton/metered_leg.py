"""A leg whose calls are counted."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import TypeVar

from bridge.errors import Code
from bridge.telemetry.observers import CallObserver
from bridge.triton.calls import CallError, InferenceLeg, ModelCall, WireTensor

T = TypeVar("T")

OK = "ok"
CANCELLED = "cancelled"
DEADLINE = "deadline"


class MeteredLeg:
    """Passes calls on to `leg` and tells `observe` of each: `ok`, `deadline`, `cancelled`, or who was to blame."""

    def __init__(self, leg: InferenceLeg, observe: CallObserver) -> None:
        self._leg = leg
        self._observe = observe

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        return await self._metered(self._leg.infer(call, timeout))

    async def forward(self, method: str, request: bytes, timeout: float) -> bytes:
        return await self._metered(self._leg.forward(method, request, timeout))

    async def close(self) -> None:
        await self._leg.close()

    async def _metered(self, call: Awaitable[T]) -> T:
        started, outcome = perf_counter(), CANCELLED
        try:
            answer = await call
            outcome = OK
        except CallError as error:
            outcome = DEADLINE if error.code is Code.DEADLINE_EXCEEDED else error.fault.value
            raise
        finally:
            self._observe(outcome, perf_counter() - started)
        return answer
