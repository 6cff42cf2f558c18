"""Inference calls on one given copy, which no snapshot needs to know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bridge.codec.model_spec import ModelSpec
from bridge.serving.infer import Answer, P, Plan
from bridge.serving.observer import Observer, Observers
from bridge.serving.routes import ServableRoute
from bridge.triton.calls import ModelCall, WireTensor

Send = Callable[[ModelCall, float], Awaitable[list[WireTensor]]]
"""Runs a call within some seconds. Raises CallError."""


class SingleCopy:
    """What `Inference` needs of the request path. Requests are answered by `servable`, whatever model they ask for.

    They are neither observed nor repeated. Each takes at most `longest` seconds.
    """

    observer: Observer = Observers()

    def __init__(self, servable: ServableRoute, send: Send, *, longest: float, check_method_names: bool) -> None:
        self.check_method_names = check_method_names
        self._servable = servable
        self._send = send
        self._longest = longest

    async def infer(self, spec: ModelSpec | None, plan: Plan[P], timeout: float | None, api: str = "") -> Answer[P]:
        """Answer a request within `timeout` seconds. Raises BridgeError."""
        servable = replace(self._servable, model=spec.name) if spec else self._servable
        planned, run = await plan(servable)
        answer = await self._send(run.call(servable.triton_name), self._longest if timeout is None else timeout)
        return Answer(servable, planned, run.outputs(answer))
