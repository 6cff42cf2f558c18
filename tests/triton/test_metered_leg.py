from __future__ import annotations

import asyncio

import pytest

from bridge.errors import Code
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from bridge.triton.metered_leg import MeteredLeg

CALL = ModelCall("model", (), ("y",))
ANSWER = [WireTensor("y", "FP32", (0,), b"")]


class StubLeg:
    """Ends each call as it is told."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.closed = False

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        if self.error is not None:
            raise self.error
        return ANSWER

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (CallError("bad graph", Code.INVALID_ARGUMENT, Fault.MODEL), "model"),
        (CallError("stub died", Code.UNAVAILABLE, Fault.RUNNER), "runner"),
        (CallError("unknown", Code.NOT_FOUND, Fault.NOT_READY), "not ready"),
        (CallError("late", Code.DEADLINE_EXCEEDED, Fault.CONNECTION), "deadline"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_each_call_is_told_once(error: BaseException | None, outcome: str) -> None:
    told: list[tuple[str, float]] = []
    leg = MeteredLeg(StubLeg(error), lambda *seen: told.append(seen))
    if error is None:
        assert await leg.infer(CALL, 1.0) is ANSWER
    else:
        with pytest.raises(type(error)) as caught:
            await leg.infer(CALL, 1.0)
        assert caught.value is error
    ((seen, seconds),) = told
    assert (seen, 0 <= seconds < 1) == (outcome, True)


async def test_it_closes_what_it_meters() -> None:
    leg = StubLeg()
    await MeteredLeg(leg, lambda outcome, seconds: None).close()
    assert leg.closed
