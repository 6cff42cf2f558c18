"""A leg whose calls are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from time import perf_counter

from bridge.errors import Code
from bridge.telemetry.observers import CallObserver
from bridge.triton.calls import CallError, InferenceLeg, ModelCall, WireTensor

OK = "ok"
CANCELLED = "cancelled"
DEADLINE = "deadline"


class MeteredLeg:
    """Passes calls on to `leg` and tells `observe` of each: `ok`, `deadline`, `cancelled`, or who was to blame."""

    def __init__(self, leg: InferenceLeg, observe: CallObserver) -> None:
        self._leg = leg
        self._observe = observe

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        # As `_metered`, which takes longer than a small call can afford.
        started, outcome = perf_counter(), CANCELLED
        try:
            answer = await self._leg.infer(call, timeout)
            outcome = OK
            return answer
        except CallError as error:
            outcome = _outcome(error)
            raise
        finally:
            self._observe(outcome, perf_counter() - started)

    async def forward(self, method: str, request: bytes, timeout: float) -> bytes:
        with self._metered():
            return await self._leg.forward(method, request, timeout)

    async def stream(self, request: bytes, timeout: float) -> AsyncIterator[bytes]:
        with self._metered():
            async for response in self._leg.stream(request, timeout):
                yield response

    async def close(self) -> None:
        await self._leg.close()

    @contextmanager
    def _metered(self) -> Iterator[None]:
        started, outcome = perf_counter(), CANCELLED
        try:
            yield
            outcome = OK
        except CallError as error:
            outcome = _outcome(error)
            raise
        finally:
            self._observe(outcome, perf_counter() - started)


def _outcome(error: CallError) -> str:
    return DEADLINE if error.code is Code.DEADLINE_EXCEEDED else error.fault.value
