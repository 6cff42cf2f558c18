"""What the runners of the copies say of themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from bridge.codec.string_tensor import unframe
from bridge.serving.control import RoutesView
from bridge.serving.flights import Copy
from bridge.serving.legs import LegPool
from bridge.serving.session_run import ping
from bridge.triton.calls import CallError

Description = Mapping[str, Any]
"""`pid` and the totals of a runner's work: see model_repo_sync.runner.tensorflow_engine.description."""


class Runners:
    """Asks every copy of the snapshot at once."""

    def __init__(self, view: RoutesView, legs: LegPool) -> None:
        self._view = view
        self._legs = legs

    async def describe(self, timeout: float) -> dict[Copy, Description]:
        """The descriptions that came within `timeout` seconds."""
        copies = [
            Copy(servable.triton_name, name)
            for servable in self._view.routes.servables()
            for name in servable.instances
            if name in self._view.routes.instances
        ]
        answers = await asyncio.gather(*(self._describe(copy, timeout) for copy in copies))
        return {copy: answer for copy, answer in zip(copies, answers, strict=True) if answer is not None}

    async def _describe(self, copy: Copy, timeout: float) -> Description | None:
        try:
            with self._legs.use(self._view.routes.instances[copy.instance]) as leg:
                [answer] = await leg.infer(ping(copy.triton_name), timeout)
        except CallError:
            return None
        [text] = unframe(answer.data)
        description: Description = orjson.loads(text)
        return description
