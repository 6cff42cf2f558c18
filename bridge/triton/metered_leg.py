"""A leg whose calls are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

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
        # As `counted`, which takes longer than a small call can afford.
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
        with counted(self._observe):
            return await self._leg.forward(method, request, timeout)

    async def stream(self, request: bytes, timeout: float) -> AsyncIterator[bytes]:
        with counted(self._observe):
            async for response in self._leg.stream(request, timeout):
                yield response

    async def close(self) -> None:
        await self._leg.close()


class BoundedLeg(InferenceLeg, Protocol):
    """A leg that carries so many calls at a time."""

    @property
    def full(self) -> bool: ...


class MeteredBoundedLeg(MeteredLeg):
    """A BoundedLeg whose calls are counted."""

    def __init__(self, leg: BoundedLeg, observe: CallObserver) -> None:
        super().__init__(leg, observe)
        self._bounded = leg

    @property
    def full(self) -> bool:
        return self._bounded.full


@contextmanager
def counted(observe: CallObserver) -> Iterator[None]:
    """Tell `observe` of the call that is made inside."""
    started, outcome = perf_counter(), CANCELLED
    try:
        yield
        outcome = OK
    except CallError as error:
        outcome = _outcome(error)
        raise
    finally:
        observe(outcome, perf_counter() - started)


def _outcome(error: CallError) -> str:
    return DEADLINE if error.code is Code.DEADLINE_EXCEEDED else error.fault.value
